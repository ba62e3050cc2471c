"""transformers' models with random weights: a forward pass and three AdamW steps against torch's CPU eager.

`python tests/torch/model_matrix.py [name ...]` prints a row per model; `make test-torch` runs all of them.
"""

import copy
import sys
import time

import torch

TOLERANCE = 2e-4  # f32, relative to the largest value; three steps of AdamW included
_TINY = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)


def _ids(n=2, length=12, high=99):
    return torch.randint(1, high, (n, length))


def _encoder(name):
    def make():
        import transformers as t

        config = getattr(t, f"{name}Config")(**_TINY, max_position_embeddings=40, hidden_dropout_prob=0.0,
                                             attention_probs_dropout_prob=0.0)
        ids = _ids()
        return getattr(t, f"{name}ForMaskedLM")(config), {"input_ids": ids, "labels": ids}

    return make


def _distilbert():
    import transformers as t

    config = t.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0,
                                attention_dropout=0.0, max_position_embeddings=40)
    ids = _ids()
    return t.DistilBertForMaskedLM(config), {"input_ids": ids, "labels": ids}


def _gpt2():
    import transformers as t

    config = t.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=40, resid_pdrop=0.0,
                          embd_pdrop=0.0, attn_pdrop=0.0, loss_type="ForCausalLMLoss")
    ids = _ids()
    return t.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def _decoder(name):
    def make():
        import transformers as t

        config = getattr(t, f"{name}Config")(**_TINY, num_key_value_heads=2, max_position_embeddings=40)
        ids = _ids()
        return getattr(t, f"{name}ForCausalLM")(config), {"input_ids": ids, "labels": ids, "use_cache": False}

    return make


def _t5():
    import transformers as t

    config = t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
                        decoder_start_token_id=0)
    return t.T5ForConditionalGeneration(config), {"input_ids": _ids(), "labels": _ids(), "use_cache": False}


def _vit():
    import transformers as t

    config = t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16,
                         patch_size=4, num_labels=5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return t.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 3])}


def _unet():
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=4,
                                 block_out_channels=(8, 16), cross_attention_dim=16, attention_head_dim=4,
                                 down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                 up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    return model, {"sample": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([3, 7]),
                   "encoder_hidden_states": torch.randn(2, 5, 16)}


MODELS = {
    "bert": _encoder("Bert"), "roberta": _encoder("Roberta"), "distilbert": _distilbert, "gpt2": _gpt2,
    "llama": _decoder("Llama"), "mistral": _decoder("Mistral"), "qwen2": _decoder("Qwen2"), "t5": _t5, "vit": _vit,
    "unet": _unet,
}  # fmt: skip


def build(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.train(), inputs


def loss_of(out):
    return out.loss if getattr(out, "loss", None) is not None else out[0].square().mean()


def train(model, run, inputs, steps=3):
    """Losses of each step, and the weights after the last."""
    # eps: a gradient that is zero but for rounding (of a key's bias) must not become a whole step
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-5)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(run(**inputs))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().cpu() for n, p in model.named_parameters()}


def compare(name, wrap=lambda m: torch.compile(m, backend="neuron", dynamic=False), place=lambda x: x):
    """The largest relative difference of losses and weights."""
    model, inputs = build(name)
    other = place(copy.deepcopy(model))
    moved = {k: place(v) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    want_losses, want = train(model, model, inputs)
    losses, got = train(other, wrap(other), moved)
    worst = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(losses, want_losses))
    for n, w in want.items():
        worst = max(worst, ((got[n] - w).abs().max() / w.abs().max().clamp(min=1e-1)).item())
    return worst


def on(device):
    return lambda x: x.to(device)


MODES = {"compiled": {}, "eager": {"wrap": lambda m: m, "place": on("neuron")}, "lazy": {"wrap": lambda m: m, "place": on("xla")}}


def main():
    bad = 0
    print(f"{'model':12} " + "  ".join(f"{m:>8}" for m in MODES) + "   largest relative difference after three steps")
    for name in sys.argv[1:] or MODELS:
        began, found = time.perf_counter(), []
        for options in MODES.values():
            torch._dynamo.reset()
            found.append(compare(name, **options))
        bad += max(found) >= TOLERANCE
        verdict = "WRONG" if max(found) >= TOLERANCE else "ok"
        print(f"{name:12} " + "  ".join(f"{w:8.1e}" for w in found) + f"   {verdict}  {time.perf_counter() - began:5.1f} s", flush=True)
    from trine.torch.pieces import FALLBACKS

    print(f"ops on the CPU: {dict(FALLBACKS) | torch.neuron.fallbacks() or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

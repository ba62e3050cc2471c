"""What the checks of families against their makers share: small random models, by the weights of a file they wrote."""

import jax
import numpy as np
import safetensors.torch
import torch
import transformers

from trine import models

torch.set_num_threads(1)

SIZES = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64)  # fmt: skip
GROUPED = SIZES | dict(num_key_value_heads=2)


def randomised(module, spread=0.3):
    """The module with random weights that no setting leaves without effect; norms near one."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(torch.randn(value.shape) * (spread if value.ndim > 1 else 0.1) + ("norm" in name.lower() and value.ndim == 1))
    return module.eval()


def pair(kind, config, folder, spread=0.3, **more):
    """(theirs, ours, our parameters): the weights go through a file."""
    theirs = getattr(transformers, kind)
    theirs = randomised(theirs(theirs.config_class(**config, **more)), spread)
    theirs.save_pretrained(folder)
    ours = models.build(folder)
    return theirs, ours, ours.load(folder)


def tokens(rows=2, length=12, limit=99):
    return np.random.default_rng(0).integers(3, limit, (rows, length)).astype(np.int32)


def pixels(size=16, channels=3):
    """(NHWC for us, NCHW for them)"""
    images = np.random.default_rng(1).normal(size=(2, size, size, channels)).astype(np.float32)
    return images, torch.tensor(images.transpose(0, 3, 1, 2))


def near(got, want, limit=2e-5):
    want = want.detach().numpy() if hasattr(want, "detach") else want
    error = np.abs(np.asarray(got) - want).max() / np.abs(want).max()
    assert np.asarray(got).shape == want.shape and error <= limit, f"error {error:.1e} of the largest value; limit {limit:.0e}"


def decodes_alike(kind, config, folder):
    """Whether a decoder gives what theirs gives: forward, a prompt into the cache, tokens out of it."""
    theirs, ours, params = pair(kind, config, folder)
    ids = tokens()
    with torch.no_grad():
        want = theirs(torch.tensor(ids).long(), use_cache=False).logits
    near(jax.jit(ours.forward)(params, {"tokens": ids}), want)
    logits, cache = jax.jit(ours.prefill)(params, {"tokens": ids[:, :9]}, ours.empty_cache(2, 16))
    near(logits, want[:, 8])
    decode = jax.jit(ours.decode)
    for at in range(9, 12):
        logits, cache = decode(params, {"tokens": ids[:, at : at + 1], "at": np.int32(at)}, cache)
        near(logits, want[:, at])


def megatron_file(theirs, folder, groups, gated):
    """A file as Megatron's core names and lays out its tensors: queries, key and value of each group together."""
    named = {name.removeprefix("transformer.").removeprefix("model."): value.detach() for name, value in theirs.named_parameters()}
    made = {}

    def grouped(q, k, v):
        parts = [part.reshape(groups, -1, *part.shape[1:]) for part in (q, k, v)]
        joined = torch.cat([part.reshape(groups, part.shape[1], -1) for part in parts], 1)
        return joined.reshape(-1, *q.shape[1:]) if q.ndim > 1 else joined.reshape(-1)

    for i in range(2):
        to = f"decoder.layers.{i}."
        if gated:
            at = f"layers.{i}."
            made[to + "self_attention.linear_qkv.weight"] = grouped(*(named[f"{at}self_attn.{n}_proj.weight"] for n in "qkv"))
            made[to + "self_attention.linear_proj.weight"] = named[at + "self_attn.o_proj.weight"]
            made[to + "mlp.linear_fc1.weight"] = torch.cat([named[at + "mlp.gate_proj.weight"], named[at + "mlp.up_proj.weight"]])
            made[to + "mlp.linear_fc2.weight"] = named[at + "mlp.down_proj.weight"]
            made[to + "self_attention.linear_qkv.layer_norm_weight"] = named[at + "input_layernorm.weight"]
            made[to + "mlp.linear_fc1.layer_norm_weight"] = named[at + "post_attention_layernorm.weight"]
            continue
        at = f"h.{i}."
        for end in ("weight", "bias"):
            whole = named[f"{at}attn.c_attn.{end}"]
            made[to + f"self_attention.linear_qkv.{end}"] = grouped(*(whole.T if end == "weight" else whole).chunk(3))
            for ours, theirs_ in (("self_attention.linear_proj", "attn.c_proj"), ("mlp.linear_fc1", "mlp.c_fc"), ("mlp.linear_fc2", "mlp.c_proj")):
                value = named[f"{at}{theirs_}.{end}"]
                made[f"{to}{ours}.{end}"] = value.T if end == "weight" else value
            made[to + f"input_layernorm.{end}"], made[to + f"pre_mlp_layernorm.{end}"] = named[f"{at}ln_1.{end}"], named[f"{at}ln_2.{end}"]
    if gated:
        made |= {"embedding.word_embeddings.weight": named["embed_tokens.weight"], "decoder.final_layernorm.weight": named["norm.weight"],
                 "output_layer.weight": named["lm_head.weight"]}  # fmt: skip
    else:
        made |= {"embedding.word_embeddings.weight": named["wte.weight"], "embedding.position_embeddings.weight": named["wpe.weight"],
                 "decoder.final_layernorm.weight": named["ln_f.weight"], "decoder.final_layernorm.bias": named["ln_f.bias"]}  # fmt: skip
    safetensors.torch.save_file({name: value.contiguous() for name, value in made.items()}, folder / "megatron.safetensors")

"""Every family gives what `transformers` gives, by the weights of a file it wrote: small random models, in f32.

Runs on the virtual device where the plugin is installed, else on JAX's CPU.
"""

import functools
import json

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
T = pytest.importorskip("transformers")
torch.set_num_threads(1)

from trine import models  # noqa: E402
from trine.models import parameters, training  # noqa: E402

SIZES = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64)  # fmt: skip
GROUPED = SIZES | dict(num_key_value_heads=2)
PIXELS = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4)
GPT2 = dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
FALCON = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
OPT = dict(vocab_size=99, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)  # fmt: skip
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
LONG = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[2.0, 3.0, 4.0, 5.0],
            original_max_position_embeddings=32)  # fmt: skip

DECODERS = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "opt": ("OPTForCausalLM", OPT | dict(word_embed_proj_dim=32)),
    "opt 350m": ("OPTForCausalLM", OPT | dict(word_embed_proj_dim=16, do_layer_norm_before=False)),
    "gpt_neox": ("GPTNeoXForCausalLM", SIZES),
    "gpt_neox in sequence": ("GPTNeoXForCausalLM", SIZES | dict(use_parallel_residual=False)),
    "llama": ("LlamaForCausalLM", GROUPED),
    "llama 3": ("LlamaForCausalLM", GROUPED | dict(rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "llama yarn": ("LlamaForCausalLM", GROUPED | dict(rope_parameters=YARN, attention_bias=True, mlp_bias=True)),
    "mistral": ("MistralForCausalLM", GROUPED | dict(sliding_window=5)),
    "mixtral": ("MixtralForCausalLM", GROUPED | dict(num_local_experts=4)),
    "qwen2": ("Qwen2ForCausalLM", GROUPED | dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | dict(head_dim=16)),
    "gemma": ("GemmaForCausalLM", GROUPED | dict(head_dim=16)),
    "phi": ("PhiForCausalLM", SIZES),
    "phi3": ("Phi3ForCausalLM", GROUPED | dict(pad_token_id=0)),
    "phi3 long": ("Phi3ForCausalLM", GROUPED | dict(pad_token_id=0, rope_parameters=LONG)),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "falcon 7b": ("FalconForCausalLM", FALCON),
    "falcon 40b": ("FalconForCausalLM", FALCON | dict(new_decoder_architecture=True, num_kv_heads=2)),
    "falcon rw": ("FalconForCausalLM", FALCON | dict(alibi=True, multi_query=False, parallel_attn=False, bias=True)),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED | dict(sliding_window=5)),
}
ENCODERS = {
    "bert": ("BertForMaskedLM", SIZES),
    "bert classes": ("BertForSequenceClassification", SIZES | dict(num_labels=3)),
    "bert states": ("BertModel", SIZES),
    "roberta": ("RobertaForMaskedLM", SIZES),
    "roberta classes": ("RobertaForSequenceClassification", SIZES),
    "distilbert": ("DistilBertForMaskedLM", dict(vocab_size=99, dim=32, hidden_dim=48, n_layers=2, n_heads=4)),
    "distilbert classes": ("DistilBertForSequenceClassification", dict(vocab_size=99, dim=32, hidden_dim=48, n_layers=2, n_heads=4)),
    "albert": ("AlbertForMaskedLM", SIZES | dict(embedding_size=16)),
    "electra": ("ElectraForMaskedLM", SIZES | dict(embedding_size=16)),
    "electra classes": ("ElectraForSequenceClassification", SIZES | dict(embedding_size=16)),
}


def pair(kind, config, folder, **more):
    """(theirs, ours, our parameters): the weights go through a file."""
    theirs = getattr(T, kind)
    theirs = theirs(theirs.config_class(**config, **more))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in theirs.named_parameters():
            value.copy_(torch.randn(value.shape) * (0.3 if value.ndim > 1 else 0.1) + ("norm" in name.lower() and value.ndim == 1))
    theirs.eval().save_pretrained(folder)
    ours = models.build(folder)
    return theirs, ours, ours.load(folder)


def tokens(rows=2, length=12, limit=99):
    return np.random.default_rng(0).integers(3, limit, (rows, length)).astype(np.int32)


def near(got, want, limit=2e-5):
    want = want.detach().numpy() if hasattr(want, "detach") else want
    error = np.abs(np.asarray(got) - want).max() / np.abs(want).max()
    assert np.asarray(got).shape == want.shape and error <= limit, f"error {error:.1e} of the largest value; limit {limit:.0e}"


@pytest.mark.parametrize("name", DECODERS)
def test_decoder(name, tmp_path):
    theirs, ours, params = pair(*DECODERS[name], tmp_path)
    ids = tokens()
    want = theirs(torch.tensor(ids).long()).logits
    near(jax.jit(ours.forward)(params, {"tokens": ids}), want)

    # A prompt, then one token after another through the cache, gives what all of them at once give.
    logits, cache = jax.jit(ours.prefill)(params, {"tokens": ids[:, :9]}, ours.empty_cache(2, 16))
    near(logits, want[:, 8])
    decode = jax.jit(ours.decode)
    for at in range(9, 12):
        logits, cache = decode(params, {"tokens": ids[:, at : at + 1], "at": np.int32(at)}, cache)
        near(logits, want[:, at])


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder(name, tmp_path):
    theirs, ours, params = pair(*ENCODERS[name], tmp_path)
    ids, mask = tokens(), np.ones((2, 12), bool)
    mask[1, 8:] = False
    out = theirs(torch.tensor(ids).long(), attention_mask=torch.tensor(mask).long())
    want = out.logits if hasattr(out, "logits") else out.last_hidden_state
    got = np.asarray(jax.jit(ours.forward)(params, {"tokens": ids, "mask": mask}))
    if got.ndim == 3:
        got, want = got[mask], want[torch.tensor(mask)]
    near(got, want)


def pixels(size=16):
    """(NHWC for us, NCHW for them)"""
    images = np.random.default_rng(1).normal(size=(2, size, size, 3)).astype(np.float32)
    return images, torch.tensor(images.transpose(0, 3, 1, 2))


def test_vit(tmp_path):
    theirs, ours, params = pair("ViTForImageClassification", PIXELS | dict(num_labels=5), tmp_path)
    images, given = pixels()
    near(jax.jit(ours.forward)(params, {"images": images}), theirs(given).logits)


def test_clip(tmp_path):
    config = dict(text_config=SIZES | dict(eos_token_id=98), vision_config=PIXELS, projection_dim=24)
    theirs, ours, params = pair("CLIPModel", config, tmp_path)
    (images, given), ids = pixels(), tokens(limit=98)
    ids[:, [5, 9]] = 98
    out = theirs(torch.tensor(ids).long(), given, return_loss=True)
    inputs = {"tokens": ids, "images": images}
    near(jax.jit(ours.forward)(params, inputs), out.logits_per_text)
    near(jax.jit(ours.loss)(params, inputs), out.loss)


@pytest.mark.parametrize("form", [dict(), dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)], ids=["1.0", "1.1"])
def test_t5(form, tmp_path):
    config = dict(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    theirs, ours, params = pair("T5ForConditionalGeneration", config | form, tmp_path)
    ids, written = tokens(), tokens(length=6)
    mask = np.ones((2, 12), bool)
    mask[1, 8:] = False
    written[:, 0] = 0
    want = theirs(torch.tensor(ids).long(), attention_mask=torch.tensor(mask).long(), decoder_input_ids=torch.tensor(written).long()).logits
    inputs = {"tokens": ids, "mask": mask}
    near(jax.jit(ours.forward)(params, inputs | {"decoder_tokens": written}), want)
    logits, cache = jax.jit(ours.prefill)(params, inputs, ours.empty_cache(2, 12))
    near(logits, want[:, 0])
    for at in range(1, 6):
        logits, cache = jax.jit(ours.decode)(params, {"tokens": written[:, at : at + 1], "at": np.int32(at), "mask": mask}, cache)
        near(logits, want[:, at])


RESNETS = [dict(layer_type="bottleneck"), dict(layer_type="basic", downsample_in_first_stage=True),
           dict(layer_type="bottleneck", downsample_in_bottleneck=True)]  # fmt: skip


@pytest.mark.parametrize("form", RESNETS, ids=["bottleneck", "basic", "early"])
def test_resnet(form, tmp_path):
    config = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=5)
    theirs, ours, params = pair("ResNetForImageClassification", config | form, tmp_path)
    images, given = pixels(33)
    near(jax.jit(ours.forward)(params, {"images": images}), theirs(given).logits)


UNET = dict(sample_size=8, block_out_channels=(32, 64), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=24, layers_per_block=1)  # fmt: skip
UNETS = {
    "1.5": dict(attention_head_dim=2),
    "xl": dict(attention_head_dim=(2, 4), use_linear_projection=True, transformer_layers_per_block=(1, 2),
               addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=64),
}  # fmt: skip


def unet_pair(form, folder):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    theirs = diffusers.UNet2DConditionModel(**UNET, **form)
    theirs.save_pretrained(folder)
    ours = models.build(folder)
    random = np.random.default_rng(2)
    inputs = {"images": random.normal(size=(2, 8, 8, 4)), "times": np.array([3.0, 700.0]), "text": random.normal(size=(2, 7, 24)),
              "pooled": random.normal(size=(2, 16)), "sizes": random.uniform(1, 64, (2, 6)), "noise": random.normal(size=(2, 8, 8, 4))}  # fmt: skip
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    given = {name: torch.tensor(value) for name, value in inputs.items()}
    more = dict(added_cond_kwargs={"text_embeds": given["pooled"], "time_ids": given["sizes"]}) if "addition_embed_type" in form else {}

    def run():
        return theirs(given["images"].permute(0, 3, 1, 2), given["times"], given["text"], **more).sample.permute(0, 2, 3, 1)

    return theirs, ours, ours.load(folder), inputs, run


@pytest.mark.parametrize("form", UNETS)
def test_unet(form, tmp_path):
    _, ours, params, inputs, run = unet_pair(UNETS[form], tmp_path)
    near(jax.jit(ours.forward)(params, inputs), run(), 1e-4)


def test_every_family_is_checked():
    from models import test_decoders, test_diffusion, test_encoders, test_more_decoders, test_pictures, test_seeing

    later = [test_decoders.CASES, test_more_decoders.DENSE, test_more_decoders.EXPERTS, test_encoders.ENCODERS, test_encoders.PAIRS, test_encoders.SPEAKERS, test_pictures.CASES, test_seeing.CASES,
        test_diffusion.CASES]
    rows = {row.split()[0].replace("sd3.5", "sd3") for table in [DECODERS, ENCODERS, *later] for row in table}
    alone = {"vit", "clip", "t5", "resnet", "stable-diffusion unet", "vgg", "perceiver", "autoencoder_kl", "megatron_gpt"}
    assert rows | alone == set(models.FAMILIES)


def test_default_configurations_are_read():
    """Every key that `transformers` writes of a family by default is read, or known to say nothing."""
    read = 0
    for name, family in models.FAMILIES.items():
        # deberta's default is not one of the published ones, and dots1's has no number of experts: its own model refuses it.
        if name in T.CONFIG_MAPPING and not name.startswith(("deberta", "dots1")):
            family.settings(json.loads(json.dumps(T.CONFIG_MAPPING[name]().to_dict(), default=str)) | {"model_type": name})
            read += 1
    assert read >= 66


# Keys of published files beside those of the package's configurations.
PUBLISHED = {
    "gpt-oss-20b": dict(attention_dropout=0.0, experts_per_token=4, hidden_act="silu", initial_context_length=4096, initializer_range=0.02,
    output_router_logits=False,
                        router_aux_loss_coef=0.9, layer_types=["sliding_attention", "full_attention"] * 12, use_cache=True, eos_token_id=200002),
    "deepseek-v3": dict(attention_bias=False, attention_dropout=0.0, auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    aux_loss_alpha=0.001, ep_size=1,
                        hidden_act="silu", num_nextn_predict_layers=1, pretraining_tp=1, seq_aux=True, use_cache=True),
    "qwen3-30b-a3b": dict(attention_bias=False, hidden_act="silu", max_window_layers=48, output_router_logits=False, rope_scaling=None,
    router_aux_loss_coef=0.001,
                          sliding_window=None, use_sliding_window=False),
    "gemma-2-9b": dict(attention_bias=False, attention_dropout=0.0, cache_implementation="hybrid", hidden_act="gelu_pytorch_tanh",
    sliding_window_size=4096),
    "mamba-130m": dict(d_inner=1536, d_model=768, fused_add_norm=True, hidden_act="silu", n_layer=24, pad_vocab_size_multiple=8,
    rescale_prenorm_residual=False,
                       residual_in_fp32=True, rms_norm=True, ssm_cfg={}, time_step_floor=0.0001, time_step_init_scheme="random", time_step_max=0.1,
                       time_step_min=0.001),
    "llava-1.5-7b": dict(ignore_index=-100, projector_hidden_act="gelu", vision_feature_select_strategy="default", vocab_size=32064,
    pad_token_id=32001),
    "command-r": dict(hidden_act="silu", model_max_length=131072, use_qk_norm=False, pretraining_tp=1),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_of_published_files_are_read(name):
    config = models.load_config(name)
    assert models.build(config | PUBLISHED[name]).parameters_count() == models.build(config).parameters_count()


# ---- training

TRAINED = {
    "gpt2": ("GPT2LMHeadModel", GPT2), "mixtral": ("MixtralForCausalLM", GROUPED | dict(num_local_experts=4)),
    "bert": ("BertForMaskedLM", SIZES),
    "t5": ("T5ForConditionalGeneration", dict(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)),
    "vit": ("ViTForImageClassification", PIXELS | dict(num_labels=5)),
    "resnet": ("ResNetForImageClassification", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=5)),
}  # fmt: skip
QUIET = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, dropout_rate=0.0, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0)  # fmt: skip


def training_inputs(name):
    """(for us, for them)"""
    ids, labels = tokens(), np.roll(tokens(), -1, 1)
    if name in ("vit", "resnet"):
        images, given = pixels(16 if name == "vit" else 33)
        classes = np.array([1, 4], np.int32)
        return {"images": images, "labels": classes}, dict(pixel_values=given, labels=torch.tensor(classes).long())
    labels[:, ::3] = -100
    theirs = labels.copy()
    if name in ("gpt2", "mixtral"):  # they shift the labels themselves
        theirs, labels[:, -1] = np.roll(labels, 1, 1), -100
        theirs[:, 0] = -100
    return {"tokens": ids, "labels": labels}, dict(input_ids=torch.tensor(ids).long(), labels=torch.tensor(theirs).long())


def gradients(theirs, ours, folder):
    """Their gradients in our tree: by a file, as the weights come."""
    with torch.no_grad():
        for value in theirs.parameters():
            value.copy_(value.grad)
    theirs.save_pretrained(folder)
    return ours.load(folder)


@pytest.mark.parametrize("name", TRAINED)
def test_training(name, tmp_path):
    """Losses of two steps and gradients of the second, against autograd and torch.optim.AdamW."""
    theirs, ours, params = pair(*TRAINED[name], tmp_path, **QUIET)
    inputs, given = training_inputs(name)
    theirs.train()
    optimiser = torch.optim.AdamW(theirs.parameters(), 1e-3, (0.9, 0.95), 1e-8, 0.1)
    loss = theirs(**given).loss
    loss.backward()
    optimiser.step()
    step = jax.jit(lambda params, state: (ours.value_and_grad(params, inputs)[1], *ours.train_step(params, state, inputs, 1e-3)))
    _, params, state, got = step(params, training.adamw_init(params))
    near(got, loss, 1e-5)
    optimiser.zero_grad()
    loss = theirs(**given).loss
    loss.backward()
    grads, _, _, got = step(params, state)
    near(got, loss, 1e-4)
    want = gradients(theirs, ours, tmp_path)
    largest = max(np.abs(value).max() for value in jax.tree.leaves(want))
    for path, leaf in parameters.leaves(ours.tree):
        if leaf.trained:
            got, value = (functools.reduce(lambda t, key: t[key], path, tree) for tree in (grads, want))
            error = np.abs(np.asarray(got) - value).max() / max(np.abs(value).max(), 1e-3 * largest)
            assert error <= 1e-3, f"{path}: gradients differ by {error:.1e}"


def test_training_of_the_unet(tmp_path):
    theirs, ours, params, inputs, run = unet_pair(UNETS["1.5"], tmp_path)
    loss = ((run() - torch.tensor(inputs["noise"])) ** 2).mean()
    loss.backward()
    (got, _), grads = jax.jit(ours.value_and_grad)(params, inputs)
    near(got, loss, 1e-5)
    near(grads["conv_in"]["w"], theirs.conv_in.weight.grad.permute(2, 3, 1, 0), 1e-4)
    attention = theirs.down_blocks[0].attentions[0].transformer_blocks[0].attn2.to_k.weight.grad
    near(grads["down_blocks"][0]["attentions"][0]["transformer_blocks"][0]["attn2"]["to_k"]["w"], attention.T, 1e-4)

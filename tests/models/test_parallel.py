"""Tensor parallelism: the cores' parts together give what the whole model gives; shapes need no weights.

The cores are emulated by vmap over the axis "tp"; two of them run as devices.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trine import models
from trine.models import decoder, parameters, training

SIZES = dict(vocab_size=99, hidden_size=24, intermediate_size=42, num_hidden_layers=1, num_attention_heads=4,
             max_position_embeddings=64, num_key_value_heads=2)  # fmt: skip
CASES = {
    "llama, a key head each": (dict(model_type="llama", **SIZES), 2),
    "llama, key heads shared": (dict(model_type="llama", **SIZES), 4),
    "llama, groups of heads filled up": (dict(model_type="llama", **(SIZES | dict(num_attention_heads=8, head_dim=6))), 6),
    "llama, neither divides the other": (dict(model_type="llama", **(SIZES | dict(num_attention_heads=12, num_key_value_heads=3))), 2),
    "gpt2, heads filled up": (dict(model_type="gpt2", vocab_size=99, n_embd=24, n_layer=1, n_head=3, n_positions=64), 2),
    "qwen3": (dict(model_type="qwen3", head_dim=8, **SIZES), 4),
    "olmo2": (dict(model_type="olmo2", **SIZES), 4),
    "olmo2, groups filled up": (dict(model_type="olmo2", **(SIZES | dict(num_attention_heads=6))), 4),
    "falcon": (dict(model_type="falcon", vocab_size=99, hidden_size=24, num_hidden_layers=1, num_attention_heads=3, alibi=True), 2),
    "mixtral": (dict(model_type="mixtral", num_local_experts=4, **SIZES), 2),
    "gemma2": (dict(model_type="gemma2", head_dim=8, sliding_window=5, **SIZES), 2),
    "gpt_oss": (dict(model_type="gpt_oss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, **SIZES), 4),
    "cohere, norms of their own": (dict(model_type="cohere", use_qk_norm=True, **SIZES), 4),
    "qwen2_moe": (dict(model_type="qwen2_moe", num_experts=4, moe_intermediate_size=18, shared_expert_intermediate_size=22, **SIZES), 2),
    "deepseek_v3": (dict(model_type="deepseek_v3", kv_lora_rank=10, q_lora_rank=12, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8,
    n_routed_experts=4,
                         moe_intermediate_size=18, n_shared_experts=1, n_group=2, topk_group=1, num_experts_per_tok=2, **SIZES), 2),
    "lfm2": (dict(model_type="lfm2", layer_types=["conv"], block_auto_adjust_ff_dim=False, **SIZES), 3),
    "mamba": (dict(model_type="mamba", vocab_size=99, hidden_size=24, num_hidden_layers=1, state_size=4), 2),
    "mamba2, heads filled up": (dict(model_type="mamba2", vocab_size=99, hidden_size=24, num_hidden_layers=1, state_size=4, num_heads=6,
    n_groups=2), 4),
    "falcon_h1": (dict(model_type="falcon_h1", mamba_d_ssm=24, mamba_n_heads=4, mamba_n_groups=1, mamba_d_state=4, **SIZES), 2),
    "recurrent_gemma, heads filled up": (dict(model_type="recurrent_gemma", lru_width=30, block_types=["recurrent"],
    **(SIZES | dict(num_attention_heads=3, num_key_value_heads=1))), 2),
    "xglm": (dict(model_type="xglm", vocab_size=99, d_model=24, ffn_dim=42, num_layers=1, attention_heads=4), 2),
    "bloom": (dict(model_type="bloom", vocab_size=99, hidden_size=24, n_layer=1, n_head=4), 2),
    "deberta-v2": (dict(model_type="deberta-v2", architectures=["DebertaV2ForMaskedLM"], relative_attention=True, pos_att_type="p2c|c2p",
    share_att_key=True,
                        position_buckets=4, **{k: v for k, v in SIZES.items() if k != "num_key_value_heads"}), 2),
    "bart": (dict(model_type="bart", vocab_size=99, d_model=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
    decoder_attention_heads=4,
                  encoder_ffn_dim=42, decoder_ffn_dim=42, max_position_embeddings=64), 2),
    "bert": (dict(model_type="bert", architectures=["BertForMaskedLM"], **{k: v for k, v in SIZES.items() if k != "num_key_value_heads"}), 4),
    "t5": (dict(model_type="t5", vocab_size=99, d_model=24, d_kv=8, d_ff=42, num_layers=1, num_heads=4), 4),
}


def inputs_of(model, phase, batch=2, seq=8):
    random = np.random.default_rng(0)

    def value(name, s):
        if s.dtype == np.bool_:
            return np.ones(s.shape, bool)
        return np.int32(seq - 1) if name == "at" else random.integers(0, 99, s.shape).astype(np.int32)

    return {name: value(name, s) for name, s in model.input_shapes(phase, batch, seq).items()}


def by_core(model, params, tp):
    """[cores, ...] of every parameter, each core's part of it."""
    def cut(leaf, value):
        if leaf.split is None:
            return jnp.broadcast_to(value, (tp, *value.shape))
        return jnp.stack(jnp.split(value, tp, leaf.split))

    spread = model.spread(params, tp)
    return jax.tree.map(cut, model.tree, spread, is_leaf=lambda x: isinstance(x, parameters.Parameter))


def near(got, want, limit=2e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert np.abs(got - want).max() <= limit * np.abs(want).max()


@pytest.mark.parametrize("case", ["llama, a key head each", "qwen3", "olmo2", "falcon"])
def test_tokens_are_dealt_between_blocks(case, monkeypatch):
    monkeypatch.setattr(decoder, "DEALT_LEAST", 8)
    config, tp = CASES[case]
    model = models.build(config)
    params = jax.tree.map(lambda x: x * 5, model.init(jax.random.key(0)))
    inputs, phase = inputs_of(model, "prefill"), models.phase(model, "prefill", 2, 8, tp)
    assert "reduce_scatter" in str(jax.make_jaxpr(phase.function)(*phase.shapes))
    empty = jax.tree.map(lambda s: jnp.zeros((tp, *s.shape)), model.cache_shapes(2, 8, tp))
    got = jax.jit(jax.vmap(phase.core, in_axes=(0, None, 0), axis_name="tp"))(by_core(model, params, tp), inputs, empty)
    near(got[0][0], model.prefill(params, inputs, model.empty_cache(2, 8))[0])
    trained_alike(model, params, tp)


@pytest.mark.parametrize("name, batch, seq, dealt", [
    ("llama-3-70b", 1, 512, True), ("llama-3-70b", 1, 256, False), ("llama-3-8b", 1, 512, False), ("llama-3-8b", 4, 512, True),
    ("llama-3-8b", 8, 128, True), ("llama-3-8b", 1, 1024, True), ("mixtral-8x7b", 4, 512, False), ("llama-3-8b", 4, 500, False)])  # fmt: skip
def test_tokens_that_would_not_stay_on_chip_are_dealt(name, batch, seq, dealt):
    work = models.phase(models.build(name, "bfloat16").with_layers(1), "prefill", batch, seq, 8)
    assert ("reduce_scatter" in str(jax.make_jaxpr(work.function)(*work.shapes))) == dealt


@pytest.mark.parametrize("case", CASES)
def test_cores_together(case):
    config, tp = CASES[case]
    model = models.build(config)
    params = jax.tree.map(lambda x: x * 5, model.init(jax.random.key(0)))
    cores = by_core(model, params, tp)
    for name in ("prefill",) if hasattr(model.functions, "prefill") else ("forward",):
        inputs = inputs_of(model, name)
        cache = () if name == "forward" else (model.cache_shapes(2, 8, tp),)
        phase = models.phase(model, name, 2, 8, tp)
        assert jax.tree.map(lambda x: x.shape[1:], cores) == jax.tree.map(lambda s: s.shape, phase.shapes[0])
        empty = jax.tree.map(lambda s: jnp.zeros((tp, *s.shape)), cache)
        got = jax.jit(jax.vmap(phase.core, in_axes=(0, None, *[0] * len(cache)), axis_name="tp"))(cores, inputs, *empty)
        want = jax.jit(models.phase(model, name, 2, 8).core)(params, inputs, *([model.empty_cache(2, 8)] if cache else []))
        near((got[0] if cache else got)[0], want[0] if cache else want)

    trained_alike(model, params, tp)


def trained_alike(model, params, tp):
    """A training step: the same loss, and each core's gradients are its part of the whole ones."""
    inputs = inputs_of(model, "train")
    step = jax.vmap(lambda params, inputs: model.value_and_grad(params, inputs, "tp"), (0, None), axis_name="tp")
    (loss, _), grads = jax.jit(step)(by_core(model, params, tp), inputs)
    (want, _), whole = jax.jit(model.value_and_grad)(params, inputs)
    near(loss[0], want)
    largest = max(float(jnp.abs(g).max()) for g in jax.tree.leaves(whole))
    for got, value in zip(jax.tree.leaves(grads), jax.tree.leaves(by_core(model, whole, tp)), strict=True):
        assert np.abs(np.asarray(got) - np.asarray(value)).max() <= 1e-4 * largest


def test_two_devices():
    model = models.build(dict(model_type="llama", **SIZES))
    params = model.init(jax.random.key(0))
    phase = models.phase(model, "decode", 2, 8, 2)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("tp",))
    inputs, cache = inputs_of(model, "decode"), model.empty_cache(2, 8)
    got, _ = jax.jit(phase.over(mesh))(model.spread(params, 2), inputs, cache)
    want, _ = jax.jit(model.decode)(params, inputs, cache)
    near(got, want)


@pytest.mark.parametrize("name", ["prefill", "decode", "train", "forward"])
def test_a_large_model_is_lowered_without_weights(name):
    model = models.build("llama-3-70b", "bfloat16")
    assert model.parameters_count() == 70_553_706_496
    function, shapes = models.phase(model, name, 1, 2048, 32)
    text = jax.jit(function).lower(*shapes).as_text()
    assert text.count("stablehlo.all_reduce") + text.count("stablehlo.reduce_scatter") >= 3
    assert "tensor<8192x256xbf16>" in text  # two of 64 heads of 128, and no weight of the whole model
    assert "tensor<8192x28672xbf16>" not in text


@pytest.mark.parametrize("tp, heads, keys", [(8, 4, 1), (12, 4, 2), (24, 2, 1), (32, 1, 1)])
def test_heads_of_a_core(tp, heads, keys):
    """32 heads that share 8 keys: groups that do not come out even are filled up, keys are copied."""
    phase = models.phase(models.build("llama-3-8b"), "decode", 1, 128, tp)
    layer, cache = phase.shapes[0]["layers"][0], phase.shapes[2][0]
    assert (layer["q"]["w"].shape[1] // 128, layer["k"]["w"].shape[1] // 128) == (heads, keys)
    assert cache["k"].shape[2] == keys


def test_an_image_is_not_cut():
    with pytest.raises(models.ConfigError, match="not cut"):
        models.phase(models.build("resnet-50"), "forward", 1, 224, 2)


def test_training_state_is_cut_as_the_parameters_are():
    model = models.build(dict(model_type="llama", **SIZES))
    phase = models.phase(model, "train", 2, 8, 2)
    assert jax.tree.structure(phase.shapes[1]["mean"]) == jax.tree.structure(phase.shapes[0])
    assert training.adamw_init(model.init(jax.random.key(0)))["mean"].keys() == phase.shapes[1]["mean"].keys()

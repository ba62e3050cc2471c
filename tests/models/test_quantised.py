"""Configurations with weights in few bits: read or refused by name, sizes counted, values those of the nearest codes."""

import jax
import numpy as np
import pytest
from trine import models
from trine.models import parameters, stored
from trine.models.quantisation import storage_of

LLAMA = dict(model_type="llama", vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2,
             max_position_embeddings=64)  # fmt: skip
OSS = dict(model_type="gpt_oss", vocab_size=99, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16,
           num_local_experts=4, num_experts_per_tok=2, sliding_window=5)  # fmt: skip
GROUP = dict(targets=["Linear"], weights=dict(num_bits=8, type="int", strategy="channel", symmetric=True, dynamic=False), input_activations=None)
BLOCKS = {
    "awq": (dict(quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm"), "int4", 0.07),
    "gptq": (dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=True, damp_percent=0.01), "int4", 0.07),
    "gptq 8": (dict(quant_method="gptq", bits=8, group_size=32), "int8", 0.005),
    "bitsandbytes": (dict(load_in_8bit=True, llm_int8_threshold=6.0), "int8", 0.005),
    "compressed-tensors": (dict(quant_method="compressed-tensors", config_groups=dict(group_0=GROUP), ignore=["lm_head"], format="int-quantized"),
    "int8", 0.005),
    "fp8": (dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=[32, 32]), "fp8", 0.04),
    "mxfp4": (dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"]), "mxfp4", 0.26),
}  # fmt: skip


def with_block(name, config=LLAMA):
    return models.build(config | {"quantization_config": BLOCKS[name][0]})


@pytest.mark.parametrize("name", BLOCKS)
def test_values_are_those_of_the_codes(name):
    """A model of codes gives what a model of the weights they stand for gives, and those are as near as the bits allow."""
    model, plain = with_block(name), models.build(LLAMA)
    params = jax.tree.map(lambda x: np.asarray(x) * (5 if x.ndim > 1 else 1), plain.init(jax.random.key(0)))
    kept = model.stored(params)
    shapes = jax.tree.map(lambda s: (s.shape, s.dtype), model.parameters_shapes())
    assert jax.tree.map(lambda x: (x.shape, x.dtype), kept) == shapes
    back = parameters.mapped(model.tree, lambda path, leaf: np.asarray(stored.whole(at(kept, path), np.float32)))
    inputs = {"tokens": np.arange(24, dtype=np.int32).reshape(2, 12)}
    got, same = (np.asarray(jax.jit(one.forward)(tree, inputs)) for one, tree in ((model, kept), (plain, back)))
    assert np.abs(got - same).max() <= 2e-5 * np.abs(same).max()
    few = [path for path, leaf in parameters.leaves(model.tree) if model.is_stored(path, leaf)]
    assert len(few) == (6 if name == "mxfp4" else 14)
    errors = [np.abs(at(back, path) - at(params, path)).max() / np.abs(at(params, path)).max() for path in few]
    assert 1e-4 < max(errors) <= BLOCKS[name][2]


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def test_experts_and_what_is_kept_whole():
    model, plain = with_block("mxfp4", OSS), models.build(OSS)
    params = jax.tree.map(np.asarray, plain.init(jax.random.key(0)))
    kept = model.stored(params)
    layer = kept["layers"][0]
    assert stored.is_stored(layer["gate"]["w"]) and layer["gate"]["w"]["codes"].shape == (4, 32, 64)
    assert not stored.is_stored(layer["q"]["w"]) and not stored.is_stored(layer["router"]["w"])
    back = parameters.mapped(model.tree, lambda path, leaf: np.asarray(stored.whole(at(kept, path), np.float32)))
    for length in (1, 12):  # few tokens fetch their experts' codes, many are given to every expert
        inputs = {"tokens": np.arange(length, dtype=np.int32)[None]}
        got, same = (np.asarray(jax.jit(one.forward)(tree, inputs)) for one, tree in ((model, kept), (plain, back)))
        assert np.abs(got - same).max() <= 2e-5 * np.abs(same).max()


def size(model, tp=1):
    return sum(int(np.prod(s.shape)) * s.dtype.itemsize for s in jax.tree.leaves(model.parameters_shapes(tp)))


@pytest.mark.parametrize("block, low, high", [("bitsandbytes", 0.5, 0.55), ("fp8", 0.5, 0.55), ("awq", 0.25, 0.3), ("mxfp4", 0.25, 0.3)])
def test_bytes_of_the_blocks(block, low, high):
    """Of Llama-3-8B's layers, beside those in bf16; embedding and head stay whole."""
    config = models.load_config("llama-3-8b")
    given = BLOCKS[block][0] | ({"group_size": 128} if block == "awq" else {"weight_block_size": [128, 128]} if block == "fp8" else {})
    given = given | ({"modules_to_not_convert": []} if block == "mxfp4" else {})
    whole, few = models.build(config, "bfloat16"), models.build(config | {"quantization_config": given}, "bfloat16")
    around = 2 * 2 * 128256 * 4096
    assert low <= (size(few) - around) / (size(whole) - around) <= high
    assert size(few, 8) == pytest.approx(size(few) / 8, rel=0.02)


REFUSED = [
    (dict(quant_method="awg", bits=4), 'quant_method "awg" is not read; did you mean "awq"?'),
    (dict(quant_method="hqq"), 'quant_method "hqq" is not read; these are: awq, gptq'),
    (dict(quant_method="awq", bits=3), "3 bits by awq"),
    (dict(quant_method="gptq", bits=4, groupsize=128),
    'does not read the key "quantization_config.groupsize" (it is 128); did you mean "quantization_config.group_size"?'),
    (dict(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="nf4"), "bitsandbytes' 4 bits (nf4)"),
    (dict(quant_method="compressed-tensors", config_groups=dict(group_0=dict(GROUP, weights=dict(num_bits=2, type="int")))),
    "compressed-tensors of 2 bits, int"),
    (dict(quant_method="compressed-tensors", config_groups=dict(group_0=GROUP), sparsity_config=dict(format="sparse-24-bitmask")),
    "sparsity_config: sparse-24-bitmask"),
]  # fmt: skip


@pytest.mark.parametrize("block, says", REFUSED)
def test_blocks_are_refused_by_name(block, says):
    with pytest.raises(models.ConfigError) as e:
        models.build(LLAMA | {"quantization_config": block})
    assert says in str(e.value)


def test_what_needs_whole_weights_says_so():
    model = with_block("fp8")
    with pytest.raises(models.ConfigError, match="training needs whole weights"):
        function, shapes = models.phase(model, "gradients", 1, 8)
        jax.eval_shape(function, *shapes)
    with pytest.raises(models.ConfigError, match="stored by fp8 is not read"):
        model.load(".")
    with pytest.raises(models.ConfigError, match="weights of bert are kept whole"):
        models.build(dict(models.load_config("bert-base"), quantization_config=BLOCKS["fp8"][0]))
    assert storage_of({}) is None and storage_of({"quantization_config": None}) is None


UNREAD = [
    (dict(num_key_value_head=2), 'llama does not read the key "num_key_value_head" (it is 2); did you mean "num_key_value_heads"?'),
    (dict(rope_scaling=dict(rope_type="linear", facto=2.0)),
    'does not read the key "rope_scaling.facto" (it is 2.0); did you mean "rope_scaling.factor"?'),
    (dict(attn_logit_softcapping=50.0), 'does not read the key "attn_logit_softcapping" (it is 50.0)'),
]


@pytest.mark.parametrize("keys, says", UNREAD)
def test_keys_are_refused_by_name(keys, says):
    with pytest.raises(models.ConfigError) as e:
        models.build(LLAMA | keys)
    assert says in str(e.value)


def test_keys_that_say_nothing_are_let_by():
    models.build(LLAMA | dict(attention_dropout=0.1, bos_token_id=1, sliding_window=None, use_sliding_window=False, transformers_version="4.40.0"))
    with pytest.raises(models.ConfigError, match='is not in the zoo; did you mean "llama"'):
        models.build(LLAMA | dict(model_type="lama"))

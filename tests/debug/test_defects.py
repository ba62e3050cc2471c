"""Numeric defects planted in models of the zoo, as they are made in ports: compare names the op, in its layer."""

import copy
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trine import debug
from trine.debug.zoo import subject
from trine.models import block, decoder, experts, layers

LLAMA = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 97, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97, "n_positions": 64, "n_ctx": 64, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new"}  # fmt: skip
MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}


def planted(function, *patches):
    """The function with names replaced while it is traced."""
    def call(*args):
        block.block.clear_cache()
        patches_here = [mock.patch.object(*p) for p in patches]
        for p in patches_here:
            p.start()
        try:
            return function(*args)
        finally:
            for p in patches_here:
                p.stop()
            block.block.clear_cache()

    return call


def with_params(s, change):
    params = copy.deepcopy(s.args[0])
    change(params)
    return (params, *s.args[1:])


def found(s, *patches, args=None, **options):
    args = args or s.args
    return debug.compare(planted(s.function, *patches) if patches else s.function, *args, names=s.names, baseline=s.function, baseline_args=s.args, **options)


def wrong_eps():
    good, bad = subject(LLAMA), subject(LLAMA | {"rms_norm_eps": 1e-5})
    return debug.compare(bad.function, *bad.args, names=bad.names, baseline=good.function, baseline_args=good.args), "layer 0/norm", {"add"}


def transposed_weight():
    s = subject(LLAMA)

    def change(params):
        params["layers"][1]["o"]["w"] = params["layers"][1]["o"]["w"].T.copy()

    return found(s, args=with_params(s, change)), "layer 1/attention", {"dot_general"}


def narrow_softmax():
    known = layers.attend

    def attend(q, k, v, mask, *rest, **named):
        return known(q, k.astype(jnp.bfloat16), v, mask, *rest, **named)

    return found(subject(LLAMA), (block, "attend", attend)), "layer 0/attention", {"convert_element_type"}


def missing_mask():
    known = layers.attend
    return found(subject(LLAMA), (block, "attend", lambda q, k, v, mask, *rest: known(q, k, v, None, *rest))), "layer 0/attention", {"select_n"}


def swapped_halves():
    def rotate(x, angles):
        cos, sin = angles[0][..., None, :], angles[1][..., None, :]
        half = cos.shape[-1]
        b, a = x[..., :half].astype(jnp.float32), x[..., half : 2 * half].astype(jnp.float32)
        return jnp.concatenate([(a * cos - b * sin).astype(x.dtype), (b * cos + a * sin).astype(x.dtype)], -1)

    return found(subject(LLAMA), (block, "rotate", rotate)), "layer 0/attention", {"slice", "mul", "sub", "concatenate"}


def stale_row():
    known = block.put

    def put(cache, new, at):
        return cache if new.shape[1] == 1 else known(cache, new, at)

    return found(subject(LLAMA, seq=5, generate=3), (block, "put", put)), "step 1/layer 0/attention", {"dynamic_update_slice"}


def overflow():
    wide = subject(GPT2)

    def change(params):
        params["layers"][1]["up"]["w"] *= 2e4
        params["layers"][1]["down"]["w"] *= 1e-4

    args = with_params(wide, change)
    narrow = subject(GPT2, dtype="float16")
    held = jax.tree.map(lambda x: x.astype(np.float16) if x.dtype == np.float32 else x, args)
    return debug.compare(narrow.function, *held, names=narrow.names, baseline=wide.function, baseline_args=args), "layer 1/mlp", {"dot_general", "add", "mul", "integer_pow"}


def off_by_one():
    """Of the tokens that are decoded, not of the prompt: between them the distances are wrong."""
    known = decoder.rope_angles
    return found(subject(LLAMA, seq=5, generate=2), (decoder, "rope_angles", lambda rope, dim, positions, length: known(rope, dim, positions + (len(positions) == 1), length))), "", {"add"}


def wrong_tie():
    """Two experts that every token likes as well; the later is taken."""
    s = subject(MIXTRAL)

    def change(params):
        for layer in params["layers"]:
            layer["router"]["w"][:, 2] = layer["router"]["w"][:, 1]

    def top_k(x, k):
        values, index = jax.lax.top_k(jnp.flip(x, -1), k)
        return values, x.shape[-1] - 1 - index

    args = with_params(s, change)
    lax = mock.Mock(wraps=jax.lax)
    lax.top_k = top_k
    bad = planted(s.function, (experts, "jax", mock.Mock(wraps=jax, lax=lax)))
    return debug.compare(bad, *args, names=s.names, baseline=s.function, baseline_args=args), "layer 0/mlp", {"rev", "top_k", "sub"}


def dropped_bias():
    known = layers.dense

    def dense(params, x):
        return known({"w": params["w"]} if params["w"].shape[-1] == 128 else params, x)

    return found(subject(GPT2), (block, "dense", dense)), "layer 0/mlp", {"add"}


DEFECTS = [wrong_eps, transposed_weight, narrow_softmax, missing_mask, swapped_halves, stale_row, overflow, off_by_one, wrong_tie, dropped_bias]


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda f: f.__name__)
def test_defect(plant):
    c, scope, ops = plant()
    print(c)
    assert c.first, c.outcome
    assert c.outcome == {"narrow_softmax": "narrower", "overflow": "overflow"}.get(plant.__name__, "defect")
    assert c.op in ops, c.first
    assert c.first["scope"].startswith(scope), c.first

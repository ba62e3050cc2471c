"""Operands whose chunks of 128 rows lie far apart in memory: how they come in. Values are those of a simulated chip."""

import jax
import ml_dtypes
import numpy as np

from trine.estimate import estimate
from trine.exact import Exact


def numbers(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def test_they_come_one_by_one():
    """128 rows of 2,048 columns are 512 KiB."""
    x, w, which = numbers(1, 512, seed=1), numbers(2, 512, 2048, seed=2), np.array([1], np.int32)

    def f(w, x, which):
        return x @ jax.numpy.take(w, which, axis=0, mode="clip")[0]

    made = Exact(f, w, x, which, chip="trn1", weights=(0,))
    want = x.astype(np.float32) @ w[1].astype(np.float32)
    assert np.abs(np.asarray(made(w, x, which), np.float32) - want).max() < 0.02 * np.abs(want).max()


def test_experts_that_are_fetched_come_in_at_the_rate_of_the_engines():
    """On Trainium1 a row from 256 KiB further costs its descriptor 157 ns more."""
    config = dict(model_type="mixtral", hidden_size=2048, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=8,
                  intermediate_size=2048, vocab_size=512, num_local_experts=8, num_experts_per_tok=2)  # fmt: skip
    layers = estimate(config, phase="decode", seq=128, dtype="bfloat16", instance="trn1.32xlarge").layers()
    busy = sum(row["busy_ms"]["dma"] for row in layers if row["part"] == "mlp")
    assert busy < 1.2 * (2 * 3 * 2048 * 2048 * 2) / 240 / 1e6  # 2.0 times with far rows

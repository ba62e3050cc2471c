"""Tiny models as instructions: forward, training step and text, against JAX on the CPU, on three chips."""

import functools

import jax
import numpy as np
import pytest

from trine import _core, models

SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64}
CONFIGS = {
    "bert": {"model_type": "bert", "type_vocab_size": 2, **SIZES},
    "gpt2": {"model_type": "gpt2", "vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "llama": {"model_type": "llama", "num_key_value_heads": 2, **SIZES},
    "resnet": {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2], "num_labels": 5, "layer_type": "bottleneck"},
    "unet": {**models.load_config("sd-1.5-unet"), "block_out_channels": [32, 64], "layers_per_block": 1, "cross_attention_dim": 16, "attention_head_dim": 2, "sample_size": 8, "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]},
}
PHASES = [(name, phase) for name in CONFIGS for phase in (("forward", "train", "prefill", "decode") if name in ("gpt2", "llama") else ("forward", "train"))]


@functools.cache
def expected(name, phase):
    """A program, its arguments, and what JAX makes of them on the CPU."""
    rng = np.random.default_rng(0)

    def filled(shape):
        if shape.dtype == bool:
            return np.ones(shape.shape, bool)
        if np.issubdtype(shape.dtype, np.integer):
            return rng.integers(0, 5, shape.shape).astype(shape.dtype)
        return np.abs(0.1 * rng.standard_normal(shape.shape)).astype(shape.dtype)  # variances too

    function, shapes = models.phase(models.build(CONFIGS[name]), phase, 1, 32 if name == "resnet" else 8)
    args = jax.tree.map(filled, shapes)
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(function).lower(*args)
        want = jax.tree.leaves(lowered.compile({"xla_backend_optimization_level": 0})(*args))
    return str(lowered.compiler_ir("stablehlo")).encode(), jax.tree.leaves(args), [np.asarray(w) for w in want]


# A twelfth of trn1's SBUF is left to programs, and half its PSUM.
SMALL = '{"name": "small", "title": "a very small SBUF", "like": "trn1", "sbuf": {"bytes_per_partition": {"is": 32768, "from": "test"}}, "psum": {"banks": {"is": 4, "from": "test"}}}'


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3", SMALL], ids=["trn1", "trn2", "trn3", "small"])
@pytest.mark.parametrize(("name", "phase"), PHASES)
def test_instructions_compute_what_jax_does(name, phase, chip):
    artifact, args, want = expected(name, phase)
    given = {f"arg{i}": np.asarray(a).view(np.uint8) if np.asarray(a).dtype == bool else np.asarray(a) for i, a in enumerate(args)}
    ran = _core.compile_device(artifact, chip).program.run(given, chip)
    assert not ran.findings
    for i, w in enumerate(want):
        got = np.asarray(ran.outputs[f"out{i}"]).reshape(w.shape)
        assert np.allclose(got.astype(np.float64), w.astype(np.float64), rtol=1e-3, atol=1e-4 + 1e-4 * np.abs(w).max(initial=0)), i


def test_a_batch_that_does_not_fit_goes_by_some_images_at_a_time():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((32, 16, 16, 8)).astype(np.float32), rng.standard_normal((1, 1, 8, 256)).astype(np.float32)

    def network(x, w):
        y = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return y.mean(axis=(1, 2))

    with jax.default_device(jax.devices("cpu")[0]):
        artifact, want = str(jax.jit(network).lower(x, w).compiler_ir("stablehlo")).encode(), np.asarray(network(x, w))
    chip = SMALL.replace("32768", "65536")
    program = _core.compile_device(artifact, chip).program
    assert _core.time(program, "trn1.2xlarge").report()["spill_save_bytes"] < 1 << 20  # 8 MB of activations beside 8 MB of SBUF
    assert np.allclose(np.asarray(program.run({"arg0": x, "arg1": w}, chip).outputs["out0"]).reshape(want.shape), want, rtol=1e-3, atol=1e-4)

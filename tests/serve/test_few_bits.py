"""Folders whose weights are in few bits: what the engine makes of them is what their formats say, or they are refused by name."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from test_engine import LLAMA, built, expected, logprobs

from trine import models
from trine.models import parameters
from trine.models.weights import names_of
from trine.serve import model

SCHEME = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": False}
CONFIGS = {
    "int8": {"quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": SCHEME}}},
    "fp8": {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": SCHEME | {"type": "float"}}}},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "sym": False},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
}  # fmt: skip
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


def words(codes, order=range(8)):
    """Eight codes of the last axis in one word; nibble i has the code order[i]."""
    eight = codes.reshape(*codes.shape[:-1], -1, 8).astype(np.uint32)
    return sum(eight[..., place] << (4 * i) for i, place in enumerate(order)).astype(np.uint32).view(np.int32)


def stored(kind, base, w):
    """({name: tensor}, the weight they stand for) of a weight [inputs, outputs]."""
    inputs, outputs = w.shape
    if kind in ("int8", "fp8"):
        scale = np.abs(w).max(0) / (127 if kind == "int8" else 448)
        codes = np.rint(w / scale).astype(np.int8) if kind == "int8" else (w / scale).astype(ml_dtypes.float8_e4m3fn)
        given = {f"{base}.weight": np.ascontiguousarray(codes.T), f"{base}.weight_scale": scale[:, None].astype(np.float32)}
        return given, codes.astype(np.float32) * scale
    group = 64 if kind == "gptq" else 32
    each = w.reshape(-1, group, outputs)
    low, high = np.minimum(each.min(1), 0), np.maximum(each.max(1), 0)
    scale = ((high - low) / 14).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), 1, 15)
    codes = np.clip(np.rint(each / scale[:, None]) + zero[:, None], 0, 15)
    value = ((codes - zero[:, None]) * scale[:, None]).reshape(w.shape)
    codes, tensors = codes.reshape(w.shape), {f"{base}.scales": scale.astype(np.float16)}
    if kind == "gptq":
        tensors[f"{base}.qweight"] = np.ascontiguousarray(words(codes.T).T)
        tensors[f"{base}.qzeros"], tensors[f"{base}.g_idx"] = words(zero - 1), (np.arange(inputs) // group).astype(np.int32)
    else:
        tensors[f"{base}.qweight"], tensors[f"{base}.qzeros"] = words(codes, AWQ), words(zero, AWQ)
    return tensors, value


def written(kind, folder):
    """(the folder's model, parameters as its tensors mean them)"""
    made, params = built(LLAMA)
    tensors = {}
    for path, _ in parameters.leaves(made.tree):
        at = params
        for key in path[:-1]:
            at = at[key]
        name = names_of(made.family.names, made.family.prefix, path)[0][0]
        if path[-1] == "w" and "layers" in path:
            own, at["w"] = stored(kind, name.removesuffix(".weight"), np.asarray(at["w"]))
            tensors |= own
        else:
            value = np.asarray(at[path[-1]])
            tensors[name] = np.ascontiguousarray(value.T if path[-1] == "w" else value)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": CONFIGS[kind]}))
    return made, params, tensors


@pytest.mark.parametrize("kind", CONFIGS)
def test_values_are_those_of_the_codes(kind, tmp_path):
    made, params, _ = written(kind, tmp_path)
    prepared = model.prepare(str(tmp_path))
    assert prepared.matrices["layers.0.q"][0] == {"int8": "I8", "fp8": "FP8"}.get(kind, "Q4_1")
    tokens = np.random.default_rng(5).integers(0, 320, 30).tolist()
    np.testing.assert_allclose(logprobs(prepared, tokens), expected(made, params, tokens), atol=2e-2)


@pytest.mark.parametrize("block, says", [
    ({"quant_method": "mxfp4"}, "stored by mxfp4 as mxfp4 in groups of 32"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "stored by fp8 as fp8 in groups of 128"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 16}, "stored by gptq as int4 in groups of 16"),
    ({"quant_method": "gptq", "bits": 3}, "3 bits by gptq"),
])  # fmt: skip
def test_others_are_refused_by_name(block, says, tmp_path):
    written("int8", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": block}))
    with pytest.raises(models.ConfigError, match=says):
        model.prepare(str(tmp_path))


def test_damaged_files_are_told(tmp_path):
    _, _, tensors = written("gptq", tmp_path)
    base = "model.layers.0.self_attn.q_proj"
    safetensors.numpy.save_file(tensors | {base + ".g_idx": np.zeros(256, np.int32)}, tmp_path / "model.safetensors")
    with pytest.raises(models.ConfigError, match="desc_act"):
        model.prepare(str(tmp_path))
    safetensors.numpy.save_file({n: t for n, t in tensors.items() if n != base + ".scales"}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"no tensor .*q_proj\.scales"):
        model.prepare(str(tmp_path))

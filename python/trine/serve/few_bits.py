"""Weights that a safetensors folder keeps in few bits, as the engine multiplies them: int8 and fp8 with a scale per output as they
lie in the file, four bits of GPTQ and AWQ as GGUF's Q4_1 blocks. What is stored otherwise is refused by name. Of a GGUF file MXFP4
becomes Q5_0, which holds the same numbers.
"""

import ml_dtypes
import numpy as np

from trine.models.families import ConfigError
from trine.models.quantised import E2M1, mxfp4, nibbles
from trine.models.safetensors import FileError
from trine.models.weights import names_of

BLOCK = 32  # weights of a Q4_1 block
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column, of eight, that each nibble of a word holds
SHIFTS = 4 * np.arange(8)


def check(model):
    """That the engine multiplies what the configuration stores."""
    s, family = model.storage, model.family.name
    whole = s.kind in ("int8", "fp8") and not s.group and s.method in ("compressed-tensors", "fp8")
    four = s.kind == "int4" and s.method in ("gptq", "awq") and s.group % BLOCK == 0
    if not whole and not four:
        groups = f" in groups of {s.group}" if s.group else ""
        raise ConfigError(f"{family} with weights stored by {s.method} as {s.kind}{groups} is timed, but not yet served; int8 and fp8 by output "
                          f"(compressed-tensors, fp8) and four bits of gptq and awq in groups of a multiple of {BLOCK} are")  # fmt: skip
    if model.settings.experts:
        raise ConfigError(f"{family} has experts, whose weights in few bits ({s.method}) are not yet served")
    if model.settings.rope.paired:
        raise ConfigError(f"{family} stores the rotary dims of a pair side by side, which weights in few bits ({s.method}) are not yet sorted for")


def base_of(model, source, path, ending):
    """The name in the file that a weight's tensors begin with."""
    for name, part in names_of(model.family.names, model.family.prefix, path):
        base = name.removesuffix(".weight")
        if base + ending in source:
            if part:
                raise ConfigError(f"{base} holds several weights in few bits; one each is served")
            return base
    raise FileError(f"no tensor {names_of(model.family.names, model.family.prefix, path)[0][0].removesuffix('.weight')}{ending}, for {'.'.join(map(str, path))}")


def by_output(model, source, path, label):
    base = base_of(model, source, path, ".weight")
    codes = source[base + ".weight"]
    wanted = "int8" if label == "I8" else "float8_e4m3fn"
    if codes.ndim != 2 or str(codes.dtype) != wanted:
        raise FileError(f"{base}.weight is {codes.dtype} of shape {list(codes.shape)}; expected {wanted}, outputs by inputs")
    name = next((base + end for end in (".weight_scale", ".weight_scale_inv") if base + end in source), None)
    if name is None:
        raise FileError(f"no tensor {base}.weight_scale in the file")
    scales = np.asarray(source[name], np.float32).reshape(-1)
    outputs, inputs = codes.shape
    if scales.size not in (1, outputs):
        raise FileError(f"{name} has {scales.size} numbers; expected one, or one for each of {outputs} outputs")
    return label, outputs, inputs, np.ascontiguousarray(codes).view(np.uint8).reshape(-1), np.ascontiguousarray(np.broadcast_to(scales, outputs)), None


def gptq_codes(source, base, group, older):
    """(codes [inputs, outputs], zeros [groups, outputs])"""
    words, zeros = (np.asarray(source[base + end]).view(np.uint32) for end in (".qweight", ".qzeros"))
    codes = (words[:, None] >> SHIFTS[None, :, None] & 15).reshape(-1, words.shape[1])
    if base + ".g_idx" in source and not np.array_equal(source[base + ".g_idx"], np.arange(len(codes)) // group):
        raise ConfigError(f"{base} has its inputs in another order (desc_act), which is not yet served")
    return codes, (zeros[..., None] >> SHIFTS & 15).reshape(len(zeros), -1) + older


def awq_codes(source, base):
    def unpacked(words):
        words = np.asarray(words).view(np.uint32)
        each = np.empty((*words.shape, 8), np.uint32)
        each[..., list(AWQ_ORDER)] = words[..., None] >> SHIFTS & 15
        return each.reshape(len(words), -1)

    return unpacked(source[base + ".qweight"]), unpacked(source[base + ".qzeros"])


def four_bits(model, source, path):
    s = model.storage
    base = base_of(model, source, path, ".qweight")
    for end in (".qzeros", ".scales"):
        if base + end not in source:
            raise FileError(f"no tensor {base}{end} in the file")
    older = model.config["quantization_config"].get("checkpoint_format") != "gptq_v2"  # zeros are one less in the file
    codes, zeros = gptq_codes(source, base, s.group, older) if s.method == "gptq" else awq_codes(source, base)
    scales, (inputs, outputs) = np.asarray(source[base + ".scales"], np.float32), codes.shape
    if scales.shape != zeros.shape or scales.shape != (inputs // s.group, outputs):
        raise FileError(f"{base}: codes of {inputs} inputs and {outputs} outputs, scales {list(scales.shape)}, zeros {list(zeros.shape)}")
    blocks = np.empty((outputs, inputs // BLOCK, 20), np.uint8)
    own = codes.T.reshape(outputs, -1, BLOCK).astype(np.uint8)
    for at, value in ((0, scales), (2, -scales * zeros)):
        half = np.repeat(value.T, s.group // BLOCK, 1).astype(np.float16)
        blocks[..., at : at + 2] = np.ascontiguousarray(half)[..., None].view(np.uint8)
    blocks[..., 4:] = own[..., :16] | own[..., 16:] << 4
    return "Q4_1", outputs, inputs, blocks.reshape(-1), None, None


def matrix(model, source, path):
    """A stored weight as the engine takes it."""
    if model.storage.kind == "int4":
        return four_bits(model, source, path)
    return by_output(model, source, path, "I8" if model.storage.kind == "int8" else "FP8")


def served(label, shape, data):
    """(format, shape, bytes) that the engine multiplies, of a GGUF tensor's."""
    if label != "MXFP4":
        return label, shape, data
    blocks = data.reshape(-1, 17)
    scales = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)  # codes are twice the numbers
    with np.errstate(over="ignore"):
        half = scales.astype(np.float16)
    if not np.array_equal(half, scales):  # past what f16 holds
        return "BF16", shape, mxfp4(blocks).astype(ml_dtypes.bfloat16).view(np.uint8).reshape(-1)
    codes = (E2M1[nibbles(blocks[:, 1:])] + 16).astype(np.uint8)
    made = np.empty((len(blocks), 22), np.uint8)
    made[:, :2] = half.view(np.uint8)
    made[:, 2:6] = np.packbits(codes >> 4, 1, "little")
    made[:, 6:] = codes[:, :16] & 15 | codes[:, 16:] << 4
    return "Q5_0", shape, made.reshape(-1)

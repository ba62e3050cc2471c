"""The `quantization_config` of a configuration: how its dense weights are stored. Every method has a row of the keys it is
read from; a method without one, or a key nobody reads, is refused by name. Needs no JAX.

Weights are stored in few bits and multiplied in the model's own type; what a method does to activations is not read.
"""

import difflib
import fnmatch
import re
from dataclasses import dataclass

from trine.models.reading import ConfigError, Reading, refuse_unread, short


@dataclass(frozen=True)
class Storage:
    method: str
    kind: str  # int8, fp8, int4, mxfp4
    group: int = 0  # inputs that share a scale; 0: all of an output's
    across: int = 0  # outputs that share it, too; 0: each has its own
    zero: bool = False  # codes have a zero point; those of four bits always, as they run from 0 to 15
    skipped: tuple = ()  # names, or patterns of them, of what is not stored so

    @property
    def bits(self):
        return {"int8": 8, "fp8": 8, "int4": 4, "mxfp4": 4}[self.kind]


def listed(given, *names):
    return tuple(name for key in names for name in given.get(key) or ())


def four_bits(given, *names):
    bits = next((given.get(name) for name in names if given.get(name) is not None), 4)
    if bits not in (4, 8):
        raise ConfigError(f"{bits} bits by {given.get('quant_method')}; 4 and 8 are read")
    return bits


def group_of(given, *names):
    size = next((given.get(name) for name in names if given.get(name) is not None), 128)
    return max(0, size)


def awq(given):
    if four_bits(given, "bits", "w_bit") != 4:
        raise ConfigError("awq of 8 bits is not known")
    return Storage("awq", "int4", group_of(given, "group_size", "q_group_size"), zero=True,
                   skipped=listed(given, "modules_to_not_convert"))  # fmt: skip


def gptq(given):
    skipped = ("*lm_head*",) if not given.get("lm_head") else ()
    skipped += tuple(name.removeprefix("-:") for name in given.part("dynamic").values_of())
    if four_bits(given, "bits") == 8:
        return Storage("gptq", "int8", group_of(given, "group_size"), skipped=skipped)
    return Storage("gptq", "int4", group_of(given, "group_size"), zero=True, skipped=skipped)


def bitsandbytes(given):
    if given.get("load_in_4bit") or given.get("_load_in_4bit"):
        kind = given.get("bnb_4bit_quant_type", "fp4")
        raise ConfigError(f"bitsandbytes' 4 bits ({kind}) are read from a table of sixteen values, for which the chip has no form; load_in_8bit is read")
    return Storage("bitsandbytes", "int8", skipped=listed(given, "llm_int8_skip_modules"))


def fp8(given):
    block = given.get("weight_block_size") or (0, 0)
    return Storage("fp8", "fp8", block[1], block[0], skipped=listed(given, "modules_to_not_convert", "ignored_layers"))


def mxfp4(given):
    return Storage("mxfp4", "mxfp4", 32, skipped=listed(given, "modules_to_not_convert"))


def compressed(given):
    """The weights' scheme of the one group that has dense layers as its target."""
    groups = [given.part("config_groups").part(name) for name in given.part("config_groups").values_of()]
    if len(groups) != 1:
        raise ConfigError(f"compressed-tensors with {len(groups)} groups; one is read")
    group = groups[0]
    for name in ("targets", "input_activations", "output_activations", "format"):
        group.get(name)
    for part in ("input_activations", "output_activations"):
        group.part(part).values_of()
    weights = group.part("weights")
    bits, kind, strategy = weights.get("num_bits", 8), weights.get("type", "int"), weights.get("strategy") or "channel"
    for name in ("dynamic", "observer", "observer_kwargs", "actorder", "block_structure", "symmetric", "scale_dtype", "zp_dtype"):
        weights.get(name)
    size, block = weights.get("group_size"), weights.get("block_structure")
    skipped = listed(given, "ignore")
    if (kind, bits) not in (("int", 8), ("int", 4), ("float", 8)):
        raise ConfigError(f"compressed-tensors of {bits} bits, {kind}; int of 4 and 8 and float of 8 are read")
    named = {("int", 8): "int8", ("int", 4): "int4", ("float", 8): "fp8"}[kind, bits]
    if strategy in ("channel", "tensor"):
        return Storage("compressed-tensors", named, zero=named == "int4", skipped=skipped)
    if strategy == "group":
        return Storage("compressed-tensors", named, size or 128, zero=named == "int4", skipped=skipped)
    if strategy == "block" and block:
        return Storage("compressed-tensors", named, block[1], block[0], skipped=skipped)
    raise ConfigError(f'compressed-tensors by "{strategy}"; channel, tensor, group and block are read')


# Method: how it is read, and keys that say nothing about storage.
METHODS = {
    "awq": (awq, ("version", "backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse", "zero_point")),
    "gptq": (gptq, ("desc_act", "sym", "damp_percent", "true_sequential", "checkpoint_format", "static_groups", "model_name_or_path",
    "model_file_base_name", "is_marlin_format",
                    "tokenizer", "dataset", "use_cuda_fp16", "model_seqlen", "block_name_to_quantize", "module_name_preceding_first_block",
                    "batch_size", "pad_token_id",
                    "use_exllama", "max_input_length", "exllama_config", "cache_block_outputs", "modules_in_block_to_quantize", "backend", "meta",
                    "damp_auto_increment",
                    "mse", "quant_method", "pack_dtype", "act_group_aware")),
    "bitsandbytes": (bitsandbytes, ("llm_int8_threshold", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "bnb_4bit_compute_dtype",
    "bnb_4bit_quant_storage",
                                    "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "load_in_4bit", "load_in_8bit", "_load_in_8bit")),
    "compressed-tensors": (compressed, ("format", "quantization_status", "global_compression_ratio", "version", "kv_cache_scheme",
    "sparsity_config", "transform_config")),
    "fp8": (fp8, ("activation_scheme", "fmt", "dequantize", "scale_fmt")),
    "mxfp4": (mxfp4, ("dequantize",)),
}  # fmt: skip


def storage_of(config):
    """How the configuration's dense weights are stored; None where they are kept whole."""
    block = config.get("quantization_config")
    if not block:
        return None
    if not isinstance(block, dict):
        raise ConfigError(f"quantization_config is {short(block)}; expected an object")
    method = block.get("quant_method") or ("bitsandbytes" if any(name.startswith(("load_in_", "_load_in_")) for name in block) else None)
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, 1, 0.6)
        asked = f'; did you mean "{near[0]}"?' if near else ""
        raise ConfigError(f'quantization_config: quant_method "{method}" is not read{asked}; these are: {", ".join(METHODS)}')
    read, silent = METHODS[method]
    reading = Reading(block, "quantization_config.")
    reading.seen |= {"quant_method", *silent}
    made = read(reading)
    if sparse := reading.part("sparsity_config").values:
        raise ConfigError(f"quantization_config.sparsity_config: {sparse.get('format')} is not read; dense weights are")
    refuse_unread(reading, f"quantization_config of {method}")
    return made


def keeps(storage, name):
    """Whether a tensor of that name in the file is kept whole."""
    for pattern in storage.skipped:
        if pattern.startswith("re:"):
            if re.match(pattern[3:], name):
                return True
        elif fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"*{pattern}*"):
            return True
    return False

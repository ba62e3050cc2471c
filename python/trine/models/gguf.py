"""Reads GGUF files: metadata, from which the configuration and the tokenizer come, and tensors as f32.

Everything in the file is checked against its length before it is used.
"""

import mmap
import os
import struct
from pathlib import Path

import numpy as np

from trine.models.quantised import FORMATS
from trine.models.reading import only_read, short
from trine.models.safetensors import FileError

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
ALIGN_LIMIT = 1 << 20
COUNT_LIMIT = 1 << 24  # entries of a list or tensors of a file

# Their architecture: our family.
FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "phi3": "phi3", "phi2": "phi",
            "gpt2": "gpt2", "gptneox": "gpt_neox", "falcon": "falcon", "starcoder2": "starcoder2", "olmo2": "olmo2",
            "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma2": "gemma2", "gemma3": "gemma3_text", "granite": "granite",
            "smollm3": "smollm3", "arcee": "arcee"}  # fmt: skip
PAIRED = ("llama", "granite", "smollm3", "arcee")  # whose converter puts the rotary dims of a pair side by side
# Their key: ours, several where families spell it differently.
KEYS = {
    "embedding_length": ["hidden_size"], "block_count": ["num_hidden_layers"],
    "feed_forward_length": ["intermediate_size", "n_inner", "ffn_hidden_size"],
    "attention.head_count": ["num_attention_heads"], "attention.head_count_kv": ["num_key_value_heads", "num_kv_heads"],
    "context_length": ["max_position_embeddings", "n_positions"], "attention.layer_norm_rms_epsilon": ["rms_norm_eps"],
    "attention.layer_norm_epsilon": ["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"], "rope.freq_base": ["rope_theta"],
    "attention.key_length": ["head_dim"], "expert_count": ["num_local_experts"], "expert_used_count": ["num_experts_per_tok"],
    "attention.sliding_window": ["sliding_window"], "vocab_size": ["vocab_size"], "expert_feed_forward_length": ["moe_intermediate_size"],
    "expert_shared_feed_forward_length": ["shared_expert_intermediate_size"], "attn_logit_softcapping": ["attn_logit_softcapping"],
    "final_logit_softcapping": ["final_logit_softcapping"], "attention.scale": ["attention_multiplier"], "embedding_scale": ["embedding_multiplier"],
    "residual_scale": ["residual_multiplier"], "logit_scale": ["logits_scaling"],
}  # fmt: skip
NAMES = {
    "tokens": "token_embd", "positions": "position_embd", "norm": "output_norm", "head": "output",
    "layers.norm1": "blk.{}.attn_norm", "layers.norm2": "blk.{}.ffn_norm", "layers.o": "blk.{}.attn_output",
    "layers.q": "blk.{}.attn_q|blk.{}.attn_qkv#q", "layers.k": "blk.{}.attn_k|blk.{}.attn_qkv#k",
    "layers.v": "blk.{}.attn_v|blk.{}.attn_qkv#v", "layers.q_norm": "blk.{}.attn_q_norm", "layers.k_norm": "blk.{}.attn_k_norm",
    "layers.gate": "blk.{}.ffn_gate", "layers.up": "blk.{}.ffn_up", "layers.down": "blk.{}.ffn_down",
}  # fmt: skip
EXPERTS = {"layers.router": "blk.{}.ffn_gate_inp", "layers.gate": "blk.{}.ffn_gate_exps|blk.{}.ffn_gate",
           "layers.up": "blk.{}.ffn_up_exps|blk.{}.ffn_up", "layers.down": "blk.{}.ffn_down_exps|blk.{}.ffn_down"}  # fmt: skip
SANDWICH = {"layers.norm1_after": "blk.{}.post_attention_norm", "layers.norm2_after": "blk.{}.post_ffw_norm"}
OTHER_NAMES = {
    "mixtral": EXPERTS, "qwen3_moe": EXPERTS, "gemma2": SANDWICH, "gemma3_text": SANDWICH,
    "qwen2_moe": EXPERTS | {"layers.shared_gate": "blk.{}.ffn_gate_inp_shexp"} | {f"layers.shared.{n}": f"blk.{{}}.ffn_{n}_shexp" for n in ("gate", "up", "down")},
    "phi3": {"layers.gate": "blk.{}.ffn_up#gate", "layers.up": "blk.{}.ffn_up#up"},
    "olmo2": {"layers.norm1": "blk.{}.post_attention_norm", "layers.norm2": "blk.{}.post_ffw_norm"},
    "falcon": {"layers.norm1": "blk.{}.attn_norm_2|blk.{}.attn_norm", "layers.norm2": "blk.{}.attn_norm"},
}  # fmt: skip


class Cursor:
    """Reads forward through a file's bytes; what is not there is an error that says where."""

    def __init__(self, path, data):
        self.path, self.data, self.at = path, data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise FileError(f"{self.path}: {size} bytes are needed at {self.at}, the file has {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def count(self, what):
        number = self.number("Q")
        if number > COUNT_LIMIT:
            raise FileError(f"{self.path}: {number} {what}, at most {COUNT_LIMIT} are read")
        return number

    def value(self, kind, depth=0):
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == TEXT:
            return self.text()
        if kind != LIST or depth > 4:
            raise FileError(f"{self.path}: a value of kind {kind} at byte {self.at}")
        inner, count = self.number("I"), self.count("entries of a list")
        if inner in SCALARS:
            size = struct.calcsize("<" + SCALARS[inner])
            return np.frombuffer(self.take(size * count), "<" + SCALARS[inner]).tolist()
        return [self.value(inner, depth + 1) for _ in range(count)]


class Gguf:
    """`metadata`, and tensors by name."""

    def __init__(self, path):
        self.path = Path(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        c = Cursor(self.path, self._data)
        if c.take(4) != b"GGUF" or (version := c.number("I")) not in (2, 3):
            raise FileError(f"{path}: not a GGUF file of version 2 or 3, little-endian")
        tensors, entries = c.count("tensors"), c.count("entries")
        self.metadata = {c.text(): c.value(c.number("I")) for _ in range(entries)}
        self._at = {}
        for _ in range(tensors):
            name, rank = c.text(), c.number("I")
            if rank > 8:
                raise FileError(f"{path}: {name} has {rank} dims")
            dims = [c.number("Q") for _ in range(rank)]
            self._at[name] = (tuple(reversed(dims)), c.number("I"), c.number("Q"))
        align = self._given("general.alignment", int, 32) or 32
        if align & (align - 1) or not 0 < align <= ALIGN_LIMIT:
            raise FileError(f"{path}: an alignment of {align}; expected a power of two up to {ALIGN_LIMIT}")
        self._base = -(-c.at // align) * align
        self.family = FAMILIES.get(self._given("general.architecture", str))
        if self.family == "llama" and self._of("expert_count"):
            self.family = "mixtral"

    def __contains__(self, name):
        return name in self._at

    def keys(self):
        return self._at.keys()

    def __getitem__(self, name):
        _, shape, blocks, read = self._blocks(name)
        return read(blocks).reshape(shape)

    def packed(self, name):
        """(format, shape, its bytes as they lie in the file) of a tensor."""
        label, shape, blocks, _ = self._blocks(name)
        return label, shape, blocks.reshape(-1)

    def _blocks(self, name):
        shape, kind, offset = self._at[name]
        if kind not in FORMATS:
            known = ", ".join(row[0] for row in FORMATS.values())
            raise FileError(f"{self.path}: {name} is of format {kind}; readable are {known}")
        label, elements, size, read = FORMATS[kind]
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if count % elements or (shape and shape[-1] % elements):
            raise FileError(f"{self.path}: {name} of shape {list(shape)} is no whole number of {label} blocks")
        first, length = self._base + offset, count // elements * size
        if first + length > len(self._data):
            raise FileError(f"{self.path}: {name} ends at byte {first + length}, the file at {len(self._data)}")
        return label, shape, np.frombuffer(self._data, np.uint8, length, first).reshape(-1, size), read

    def _given(self, key, kind, otherwise=None):
        """An entry of the metadata, which must be of that kind where it is there."""
        value = self.metadata.get(key, otherwise)
        if value is not otherwise and (not isinstance(value, kind) or isinstance(value, bool)):
            raise FileError(f"{self.path}: {key} is {short(value)}; expected {' or '.join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))}")
        return value

    def _texts(self, key):
        """A list of texts."""
        value = self._given(key, list)
        if value is None or not all(isinstance(one, str) for one in value):
            raise FileError(f"{self.path}: {key} is missing, or no list of texts")
        return value

    def _number(self, key):
        return self._given(f"{self.metadata.get('general.architecture')}.{key}", (int, float))

    def _of(self, key):
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")

    def config(self):
        """A configuration as config.json would have it."""
        if not self.family:
            raise FileError(f"{self.path}: architecture {self.metadata.get('general.architecture')}; known are {', '.join(FAMILIES)}")
        config = {"model_type": self.family, "tie_word_embeddings": "output.weight" not in self}
        for theirs, ours in KEYS.items():
            if self._of(theirs) is not None:
                config |= dict.fromkeys(ours, self._of(theirs))
        if "token_embd.weight" in self:
            dims = self._at["token_embd.weight"][0]
            if len(dims) != 2:
                raise FileError(f"{self.path}: token_embd.weight is {list(dims)}; expected rows of tokens")
            config["vocab_size"] = dims[0]
        heads, width = self._number("attention.head_count"), self._number("embedding_length")
        if rotated := self._number("rope.dimension_count"):
            of_head = self._number("attention.key_length") or (width // heads if width and heads else 0)
            if not of_head:
                raise FileError(f"{self.path}: rope.dimension_count is {rotated}, and no head's size is given")
            config["partial_rotary_factor"] = rotated / of_head
        config |= self._rope(config)
        if self.family in ("gemma2", "gemma3_text"):
            config["query_pre_attn_scalar"] = self._scale_of(config)
        if self.family == "qwen3_moe":
            config["norm_topk_prob"] = True  # which files do not say
        if self.family == "falcon":
            config["new_decoder_architecture"] = "blk.0.attn_norm_2.weight" in self
        from trine.models.families import FAMILIES as ROWS

        return only_read(ROWS[self.family], config)

    def _scale_of(self, config):
        """What Gemma's scores are divided by the root of: a head's size, but of the largest model, which files do not say."""
        largest = {"gemma2": 46, "gemma3_text": 62}[self.family]
        whole = config["hidden_size"] // config["num_attention_heads"]
        return whole if config.get("num_hidden_layers") == largest else config.get("head_dim") or whole

    def _rope(self, config):
        """Stretched rotary positions: given as a kind and a factor, or as a factor for each frequency."""
        if "rope_freqs.weight" in self:
            factors = [float(f) for f in self["rope_freqs.weight"].reshape(-1)]
            return {"rope_scaling": {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}}
        if (kind := self._of("rope.scaling.type")) in ("linear", "yarn"):
            original = self._number("rope.scaling.original_context_length") or config.get("max_position_embeddings")
            factor = self._number("rope.scaling.factor") or 1.0
            return {"rope_scaling": {"rope_type": kind, "factor": factor, "original_max_position_embeddings": original}}
        return {}

    def names(self):
        return NAMES | OTHER_NAMES.get(self.family, {})

    def fixed(self, path, value, settings):
        """Undoes what the converter did: pairs of rotary dims side by side, one added to Gemma's norms."""
        if self.metadata["general.architecture"] in PAIRED and path[-2] in ("q", "k"):
            split = value.reshape(*value.shape[:-1], -1, settings.head_dim // 2, 2)
            return split.swapaxes(-1, -2).reshape(value.shape)
        return value - 1 if self.family.startswith("gemma") and path[-1] == "scale" else value

    def tokenizer(self):
        from trine.models.tokenizer import Tokenizer

        kind = self.metadata.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise FileError(f'{self.path}: a tokenizer of kind "{kind}"; byte-pair encoding ("gpt2") is what can be read')
        tokens, merges = self._texts("tokenizer.ggml.tokens"), self._texts("tokenizer.ggml.merges")
        kinds, pattern = self._given("tokenizer.ggml.token_type", list, ()), self._given("tokenizer.ggml.pre", str, "gpt-2")
        try:
            return Tokenizer(tokens, merges, kinds, pattern, self._given("tokenizer.ggml.eos_token_id", int))
        except ValueError as e:
            raise FileError(f"{self.path}: {e}") from None

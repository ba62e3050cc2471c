"""A program on the virtual chip against a baseline, op by op: where they part first, how far, and why.

Four runs answer it. The baseline's graph and the candidate's, both in f64: what differs there is no rounding. The
candidate on the chip: each op against itself in f64 on the values it was handed. The candidate on the host in its own
formats: the noise that is to be expected. `Comparison` is the answer; report.py prints it.
"""

import contextlib
import dataclasses
import os
import re

import ml_dtypes
import numpy as np

from trine.debug import local, measures, why
from trine.debug.graph import Missing, array_of, is_float, narrow_outputs, step_of, wide, wide_values
from trine.debug.match import Values, matched, parted

EXACT, LOOSE = 1e-9, 2e-5  # relative, in f64: of one framework's graphs, and of two frameworks' (constants in f32)
NOISE = 1.5  # times what the host makes in the same formats: still rounding


@dataclasses.dataclass
class Comparison:
    """outcome: same, rounding, narrower, overflow, chip or defect; `first`: where, with kind, op, scope, line and text."""

    name: str
    outcome: str
    passed: bool
    tolerance: float
    first: dict | None
    outputs: list
    layers: list
    ops: list
    notes: list
    steps: list = dataclasses.field(default_factory=list)

    @property
    def op(self):
        """The op that is named; empty where there is none to name."""
        return self.first["op"] if self.first else ""

    def as_dict(self):
        """For --json."""
        return {"version": 1, "report": "debug compare", **dataclasses.asdict(self)}

    def __str__(self):
        from trine.debug import report

        return report.text(self)


def compare(model, *args, baseline=None, baseline_args=None, kwargs=None, tolerance=None, tolerance_map=None, train=False,
            auto_cast="none", auto_cast_type="bf16", chip=None, only="", names=None, name=""):  # fmt: skip
    """A torch module or JAX function, called with `args`, on the virtual chip against `baseline`: another of either kind
    (called with `baseline_args`, else `args`), tensors by name or a safetensors file of them, or, without one, itself in f64.

    tolerance: relative, of the outputs; tolerance_map: {k: (absolute, relative)} of the k largest logits. train: the loss
    and the gradients of a torch module. chip: instruction by instruction on this chip. only: ops whose place matches.
    """
    title = name or getattr(model, "__name__", type(model).__name__)
    cand = graph_of(model, args, kwargs, train, names, chip)
    with flags(auto_cast, auto_cast_type):
        chip_values, plain = cand.on_chip()
    cast = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16"}.get(auto_cast_type, "bfloat16") if auto_cast != "none" else ""
    if isinstance(baseline, (dict, str, os.PathLike)):
        from trine.debug.saved import against_saved

        return against_saved(title, cand, chip_values, plain, baseline, tolerance or default_tolerance(cand, cast))
    base = None
    if baseline is not None:
        base = graph_of(baseline, args if baseline_args is None else baseline_args, kwargs, train, names if baseline_args is None else None)
    return judged(title, cand, base, chip_values, plain, cast, tolerance, tolerance_map, only)


def graph_of(model, args, kwargs=None, train=False, names=None, chip=None):
    if uses_torch(model, args):
        from trine.debug import of_torch

        if chip:
            raise Missing("instruction by instruction is for JAX functions and the zoo; a torch module runs natively")
        return of_torch.graph(model, args, kwargs, train)
    from trine.debug import of_jax

    if kwargs:
        raise Missing("keyword arguments are for torch modules; give a JAX function all by position")
    return of_jax.graph(model, args, names, chip)


def uses_torch(model, args):
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and (isinstance(model, torch.nn.Module) or any(isinstance(a, torch.Tensor) for a in args))


@contextlib.contextmanager
def flags(auto_cast, auto_cast_type):
    """neuronx-cc's flags for what is compiled inside."""
    before = os.environ.get("NEURON_CC_FLAGS")
    if auto_cast != "none":
        os.environ["NEURON_CC_FLAGS"] = f"{before or ''} --auto-cast={auto_cast} --auto-cast-type={auto_cast_type}".strip()
    try:
        yield
    finally:
        if before is not None:
            os.environ["NEURON_CC_FLAGS"] = before
        elif auto_cast != "none":
            del os.environ["NEURON_CC_FLAGS"]


def default_tolerance(graph, cast):
    steps = [step_of(d) for n in graph.nodes for d in n.dtypes if d in ("float32", "bfloat16", "float16")]
    return 0.01 if cast or max(steps, default=0.0) > step_of("float32") else 1e-3


def judged(title, cand, base, chip_values, plain, cast, tolerance, tolerance_map, only):
    notes, strict = [], base is None or base.framework == cand.framework
    base_values = None if base is None else wide_values(base)
    cand_wide = wide_values(cand, {} if base is None else snapped(cand, base))
    exact = EXACT if strict else LOOSE
    if base is None:
        base, base_values, found, first = cand, cand_wide, {i: i for i in cand_wide}, None
        is_own = True
    else:
        is_own = False
        found = matched(Values(cand, cand_wide), Values(base, base_values), exact, strict)
        first = defect(cand, base, cand_wide, base_values, found, exact, strict)
    own = local.own_errors(cand, chip_values, cast)
    pairs = paired(cand, base, found, is_own)
    outcome = "defect"
    if first is None:
        outcome, first = from_own(cand, own, pairs, found, base, cand_wide, is_own)
    tolerance = tolerance or default_tolerance(cand, cast)
    outputs = output_rows(cand, base, chip_values, plain, base_values, tolerance, tolerance_map, outcome == "rounding", notes)
    if outcome == "rounding" and all(o["max_relative"] == 0.0 for o in outputs):
        outcome, first = "same", None
    ops = op_rows(cand, chip_values, base_values, cand_wide, pairs, own, found, only)
    passed = all(o["passed"] for o in outputs)
    return Comparison(title, outcome, passed, outputs[0]["tolerance"] if outputs else 0.0, first, outputs, layer_rows(ops, first), ops, notes)


# leaves


def snapped(cand, base):
    """Values for the candidate's leaves: the baseline's, where its own are the same but for rounding."""
    by_name = {(leaf.name, leaf.kind): array_of(leaf.value) for leaf in base.leaves if leaf.kind != "constant"}
    numbers = np.array(sorted({float(wide(a).ravel()[0]) for leaf in base.leaves if leaf.kind == "constant"
                               and (a := array_of(leaf.value)) is not None and a.size == 1 and is_float(a.dtype) and np.isfinite(wide(a)).all()}))  # fmt: skip
    out = {}
    for leaf in cand.leaves:
        mine = array_of(leaf.value)
        if mine is None or not is_float(mine.dtype):
            continue
        step = 2 * step_of(mine.dtype)
        if leaf.kind == "constant":
            if mine.size == 1 and len(numbers) and step > 2 * step_of("float32"):
                value = float(np.nan_to_num(wide(mine)).ravel()[0])
                near = numbers[np.abs(numbers - value).argmin()]
                if abs(near - value) <= step * abs(value):
                    out[leaf.id] = as_leaf(cand, np.full(mine.shape, near))
            continue
        theirs = by_name.get((leaf.name, leaf.kind))
        if theirs is not None and theirs.shape == mine.shape and is_float(theirs.dtype):
            a, b = wide(mine), wide(theirs)
            if not np.array_equal(a, b) and (np.abs(a - b) <= step * np.abs(b) + smallest(mine.dtype)).all():
                out[leaf.id] = as_leaf(cand, b)
    return out


def smallest(dtype):
    """Of a format: what is nearer to zero is rounded by as much."""
    return float(ml_dtypes.finfo(dtype).smallest_subnormal)


def as_leaf(graph, array):
    if graph.framework == "torch":
        import torch

        return torch.from_numpy(np.ascontiguousarray(array))
    return array


# where


def defect(cand, base, cand_wide, base_values, found, exact, strict):
    mine = parted(cand, cand_wide, found)
    if not mine.outputs:
        return None
    back = matched(Values(base, base_values), Values(cand, cand_wide), exact, strict)
    theirs = parted(base, base_values, back)
    if not mine.nodes and not theirs.nodes:
        names = ", ".join(mine.outputs[:3])
        return {"kind": "outputs", "op": "", "scope": "", "line": "", "text": f"the baseline gives no {names}", "baseline_op": "", "baseline_line": "", "found_op": ""}
    return why.explained(cand, base, mine, theirs, found)


def from_own(cand, own, pairs, found, base, cand_wide, is_own):
    """(outcome, where) of a program that is the baseline's in f64."""
    for o in own:
        if o.not_finite:
            value = cand_wide.get(o.node.outs[0])
            most = f"; in f64 it is up to {np.abs(value[np.isfinite(value)]).max():.4g}" if value is not None and np.isfinite(value).any() else ""
            return "overflow", site(o.node, "overflow", f"{o.node.place} gives infinity or no number in {o.node.dtypes[0]}{most}")
    makers = base.maker()
    floats = [n for n in cand.nodes if n.dtypes[0] in ("bfloat16", "float16", "float32", "float64")]
    narrower = [] if is_own or weights_narrower(cand, base) else [n for n in floats if is_narrower(n, makers.get(pairs.get(n.outs[0])) if n.outs[0] in pairs else None)]
    bad = next((o for o in own if o.error > o.allowed), None)
    if bad is not None and not (narrower and before(cand, narrower[0], bad.node)):
        text = f"{bad.node.place}: off by {bad.error:.2g} on the values it was handed, rounding explains {bad.allowed:.2g}"
        return "chip", site(bad.node, "chip", text)
    if narrower and len(narrower) < 0.5 * len(floats):
        users = [n.op for n in cand.nodes if set(n.ins) & set(narrower[0].outs)]
        text = f"{narrower[0].place} is in {narrower[0].dtypes[0]}, the baseline's in {wider(narrower[0], makers, pairs)}"
        return "narrower", site(narrower[0], "narrower", text + (f"; {', '.join(dict.fromkeys(users))} take it" if users else ""))
    most = max((o for o in own if is_float_node(o.node)), key=lambda o: o.error, default=None)
    if most is None or most.error == 0.0:
        return "rounding", None
    return "rounding", site(most.node, "rounding", f"most of it at {most.node.place}, {most.error:.2g} in {most.node.dtypes[0]}")


def weights_narrower(cand, base):
    """Whether all of the model is in a narrower format: then no op of it is to blame for that."""
    theirs = {leaf.name: array_of(leaf.value) for leaf in base.leaves if leaf.kind == "weight"}
    mine = [(array_of(leaf.value), theirs.get(leaf.name)) for leaf in cand.leaves if leaf.kind == "weight"]
    return any(a is not None and b is not None and is_float(a.dtype) and step_of(a.dtype) > step_of(b.dtype) for a, b in mine)


def is_float_node(node):
    return node.dtypes[0] in ("bfloat16", "float16", "float32")


def site(node, kind, text):
    return {"kind": kind, "op": node.op, "scope": node.scope, "line": node.line, "text": text, "baseline_op": "", "baseline_line": "", "found_op": node.op}


def before(graph, a, b):
    order = {id(n): i for i, n in enumerate(graph.nodes)}
    return order[id(a)] <= order[id(b)]


def is_narrower(node, other):
    return other is not None and is_float_name(other.dtypes[0]) and step_of(node.dtypes[0]) > step_of(other.dtypes[0])


def is_float_name(name):
    return name in ("bfloat16", "float16", "float32", "float64")


def wider(node, makers, pairs):
    other = makers.get(pairs.get(node.outs[0]))
    return other.dtypes[0] if other else "a wider format"


# tables


def paired(cand, base, found, is_own):
    """{my id: their id} for the tables: those that are the same, else the op of the same place, in order."""
    if is_own:
        return {i: i for node in cand.nodes for i in node.outs}
    out, taken = dict(found), {}
    theirs = {}
    for node in base.nodes:
        theirs.setdefault((node.scope, node.op, tuple(node.shapes)), []).append(node)
    for node in cand.nodes:
        key = (node.scope, node.op, tuple(node.shapes))
        n = taken[key] = taken.get(key, -1) + 1
        if n < len(theirs.get(key, ())):
            for i, j in zip(node.outs, theirs[key][n].outs):
                out.setdefault(i, j)
    return out


def output_rows(cand, base, chip_values, plain, base_values, tolerance, tolerance_map, is_rounding, notes):
    expected = None
    rows = []
    theirs = dict(base.outputs)
    for n, (name, i) in enumerate(cand.outputs):
        j = theirs.get(name, base.outputs[n][1] if n < len(base.outputs) else None)
        got, want = plain[n], base_values.get(j)
        if got is None or want is None:
            continue
        if got.shape != want.shape:
            if got.size != want.size:
                notes.append(f"{name} is {list(got.shape)}, the baseline's {list(want.shape)}: not compared")
                continue
            want = want.reshape(got.shape)
        shown = chip_values.get(i)
        if shown is not None and not np.array_equal(wide(shown), wide(got), equal_nan=True):
            notes.append(f"{name}: showing every value changes what is fused; the program's own result is {measures.relative(shown, got):.1g} away")
        row = {"name": name, "dtype": got.dtype.name, "shape": list(got.shape), "tolerance": tolerance, **measures.measured(got, want)}
        row["passed"] = row["max_relative"] <= tolerance if is_float(got.dtype) else row["max_absolute"] == 0
        if is_logits(name, got):
            row |= logit_row(got, want, tolerance_map)
        if not row["passed"] and is_float(got.dtype):
            if expected is None:
                expected = narrow_outputs(cand)
            noise = measures.relative(expected[n], want) if expected[n] is not None else 0.0
            row["noise"] = noise
            row["passed"] = bool(is_rounding and np.isfinite(noise) and row["max_relative"] <= NOISE * noise)
        rows.append(row)
    return rows


def is_logits(name, array):
    return is_float(array.dtype) and array.ndim >= 2 and array.shape[-1] >= 32 and bool(re.search("logits|step|output", name)) and array.size < 1 << 26


def logit_row(got, want, tolerance_map):
    match = measures.logits_match(got, want, tolerance_map)
    overlap, first = measures.top_k(got, want, 5)
    return {"logits": match, "top5": overlap, "top1": first, "passed": match["passed"]}


def op_rows(cand, chip_values, base_values, cand_wide, pairs, own, found, only):
    errors = {id(o.node): o for o in own}
    rows = []
    for node in cand.nodes:
        i = node.outs[0]
        got, want = chip_values.get(i), cand_wide.get(i) if i in found else base_values.get(pairs.get(i))  # found: the same numbers
        if got is None or want is None or not is_float(got.dtype) or got.size != want.size or (only and not re.search(only, node.place)):
            continue
        o = errors.get(id(node))
        want = want.reshape(got.shape)
        rows.append({"op": node.op, "scope": node.scope, "line": node.line, "dtype": node.dtypes[0], "max_relative": measures.relative(got, want),
                     "cosine": measures.cosine(got, want), "ulp": measures.ulp(got, want), "own": o.error if o else None, "same_in_f64": i in found})  # fmt: skip
    return rows


def layer_of(scope):
    """The part of a place that people call a layer."""
    parts = [p for p in scope.split("/") if p]
    for n, part in enumerate(parts):
        if re.search(r"\d", part) and not part.startswith("step"):
            return "/".join(parts[: n + 1])
        if part in ("layers", "h", "blocks", "layer") and n + 1 < len(parts) and parts[n + 1].isdigit():
            return "/".join(parts[: n + 2])
    return "/".join(parts[:1] if not parts or not parts[0].startswith("step") else parts[:2])


def layer_rows(ops, first):
    rows, at = [], {}
    for op in ops:
        name = layer_of(op["scope"])
        if name not in at:
            at[name] = len(rows)
            rows.append({"layer": name or "(outside)", "ops": 0, "max_relative": 0.0, "cosine": 1.0, "ulp": 0.0, "worst": "", "is_first": False})
        row = rows[at[name]]
        row["ops"] += 1
        if op["max_relative"] >= row["max_relative"]:
            row |= {"max_relative": op["max_relative"], "worst": op["op"], "ulp": op["ulp"]}
        row["cosine"] = min(row["cosine"], op["cosine"])
        row["last"] = op["max_relative"]
    for row in rows:
        row["is_first"] = bool(first) and row["layer"] == (layer_of(first["scope"]) or "(outside)")
    return rows

"""torch.compile(model, backend="neuron"): Dynamo and AOTAutograd above, the emitter below.

Shapes are static: a graph that Dynamo made symbolic is traced again for each set of shapes it is called with.
"""

import logging
import time

import torch

from trine.debug import names
from trine.torch import decompose, kernels, lines  # noqa: F401 - kernels: Dynamo finds them by it
from trine.torch.pieces import Runner

log = logging.getLogger("trine.torch")
torch._dynamo.trace_rules.add("trine.torch")  # what makes programs for eager ops runs as it is
COMPILED = []  # (name, nodes, seconds) of every graph of this process


def neuron(gm, example_inputs, **options):
    """The backend that Dynamo calls with each graph."""
    from torch._dynamo.backends.common import aot_autograd

    given = options.get("options") or {}
    unknown = set(given) - {"min_cut", "buckets"}
    if unknown:
        raise ValueError(f"backend neuron has no option {sorted(unknown)}; it has min_cut and buckets")
    say_breaks()
    place = lines.caller()  # now: a backward graph may be compiled where no frame is the user's
    return aot_autograd(
        fw_compiler=compiler("forward", place),
        bw_compiler=compiler("backward", place),
        inference_compiler=compiler("inference", place, Buckets(given["buckets"]) if "buckets" in given else None),
        decompositions=decompose.table(),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def compiler(kind, place, buckets=None):
    from functorch.compile import make_boxed_func

    def compile_graph(gm, example_inputs):
        static = static_inputs() if kind != "backward" else ()
        if is_symbolic(gm.graph):
            made = Specialised(gm, kind, static, place)
            return make_boxed_func(Bucketed(made, buckets) if buckets else made)
        return make_boxed_func(runner(gm, kind, static, place))

    return compile_graph


def runner(gm, kind, static, place):
    began = time.perf_counter()
    with lines.called_from(place):
        made = shown(gm, kind, static) if names.wanted else Runner(constants_noted(gm), kind, static)
    took = time.perf_counter() - began
    COMPILED.append((kind, len(gm.graph.nodes), took))
    log.info("compiled %s graph of %d nodes in %.2f s, %d programs", kind, len(gm.graph.nodes), took, len(getattr(made, "programs", ())))
    return made


def shown(gm, kind, static):
    """With every value, for who dumps or watches."""
    from trine.debug import torch_taps

    return torch_taps.Shown(constants_noted(gm), lambda graph: Runner(graph, kind, static))


def constants_noted(gm):
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            node.meta["constant"] = getattr(gm, node.target)
            node.meta.setdefault("val", node.meta["constant"])
    return gm.graph


def static_inputs():
    """Arguments of the forward graph that are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    meta = getattr(context, "fw_metadata", None)
    return tuple(meta.static_input_indices) if meta is not None else ()


def is_symbolic(graph):
    return any(n.op == "placeholder" and isinstance(n.meta.get("val"), torch.SymInt) for n in graph.nodes)


class Specialised:
    """A graph with symbolic sizes: traced anew, and kept, for each set of sizes."""

    def __init__(self, gm, kind, static, place):
        self.gm, self.kind, self.static, self.place, self.made = gm, kind, static, place, {}

    def __call__(self, *args):
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        if key not in self.made:
            from torch._subclasses.fake_tensor import FakeTensorMode
            from torch.fx.experimental.proxy_tensor import make_fx

            fake = FakeTensorMode()
            inputs = [fake.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
            with fake:
                traced = make_fx(self.gm, tracing_mode="real")(*inputs)
            self.made[key] = runner(traced, self.kind, self.static, self.place)
        return self.made[key](*args)


class Buckets:
    """Sizes that are compiled: a list for every size that varies, or lists by the dim in which it varies."""

    def __init__(self, given):
        by_dim = given if isinstance(given, dict) else {None: given}
        good = by_dim and all(s and all(type(n) is int and n > 0 for n in s) for s in by_dim.values())
        if not good or not all(d is None or type(d) is int for d in by_dim):
            raise ValueError(f"buckets: found {given!r}, expected a list of sizes or {{dim: list of sizes}}")
        self.by_dim = {d: sorted(s) for d, s in by_dim.items()}

    def size(self, size, dim):
        """The smallest bucket that holds a size; past the largest, the size itself."""
        sizes = self.by_dim.get(dim, self.by_dim.get(None, ()))
        return next((b for b in sizes if b >= size), size)


class Bucketed:
    """A graph for inference, run at the sizes of buckets: inputs are filled up with zeros, results cut back."""

    def __init__(self, specialised, buckets):
        self.run, self.buckets = specialised, buckets
        nodes = list(specialised.gm.graph.nodes)
        self.inputs = [n.meta["val"] for n in nodes if n.op == "placeholder"]
        self.outputs = [n.meta["val"] if isinstance(n, torch.fx.Node) else n for n in nodes[-1].args[0]]
        self.dims = {}  # symbol -> the first dim of an input that it is the size of
        for v in self.inputs:
            for d, size in enumerate(v.shape if isinstance(v, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt):
                    self.dims[size.node.expr] = min(d, self.dims.get(size.node.expr, d))

    def __call__(self, *args):
        actual = {v.node.expr: a for v, a in zip(self.inputs, args) if isinstance(v, torch.SymInt)}
        wanted = {s: self.buckets.size(n, self.dims.get(s)) for s, n in actual.items()}
        filled = []
        for v, a in zip(self.inputs, args):
            if isinstance(a, torch.Tensor):
                a = grown(a, sizes(v.shape, wanted))
            filled.append(sizes([v], wanted)[0] if isinstance(v, torch.SymInt) else a)
        return [actual_part(v, r, actual) for v, r in zip(self.outputs, self.run(*filled))]


def sizes(shape, values):
    """A symbolic shape's numbers."""
    return [int(s.node.expr.xreplace(values)) if isinstance(s, torch.SymInt) else int(s) for s in shape]


def grown(tensor, shape):
    room = [(0, n - d) for d, n in zip(tensor.shape, shape)]
    return torch.nn.functional.pad(tensor, [n for pair in reversed(room) for n in pair]) if any(n for _, n in room) else tensor


def actual_part(symbolic, result, values):
    """Of a result at a bucket's sizes, what the caller's sizes have."""
    if isinstance(symbolic, torch.SymInt):
        return sizes([symbolic], values)[0]
    if isinstance(result, torch.Tensor):
        for d, n in enumerate(sizes(symbolic.shape, values)):
            result = result.narrow(d, 0, n)
    return result


_WARNED = set()


def say_breaks():
    """A line for each new place where Dynamo split the model, and why."""
    from torch._dynamo.utils import graph_break_reasons

    for found in graph_break_reasons:
        at = found.user_stack[-1] if found.user_stack else None
        at_line = f" at {at.filename}:{at.lineno}  {at.line}" if at else ""
        if (at_line, found.reason) not in _WARNED:
            _WARNED.add((at_line, found.reason))
            log.warning("graph break%s: %s", at_line, str(found.reason).splitlines()[0])

"""torch.compile(model, backend="neuron"): Dynamo and AOTAutograd above, the emitter below.

Shapes are static: a graph that Dynamo made symbolic is traced again for each set of shapes it is called with.
"""

import logging
import time

import torch

from trine.torch import decompose
from trine.torch.pieces import Runner

log = logging.getLogger("trine.torch")
COMPILED = []  # (name, nodes, seconds) of every graph of this process


def neuron(gm, example_inputs, **options):
    """The backend that Dynamo calls with each graph."""
    from torch._dynamo.backends.common import aot_autograd

    unknown = set(options.get("options") or {}) - {"min_cut"}
    if unknown:
        raise ValueError(f"backend neuron has no option {sorted(unknown)}; it has min_cut")
    say_breaks()
    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompose.table(),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def compiler(kind):
    from functorch.compile import make_boxed_func

    def compile_graph(gm, example_inputs):
        static = static_inputs() if kind != "backward" else ()
        if is_symbolic(gm.graph):
            return make_boxed_func(Specialised(gm, kind, static))
        return make_boxed_func(runner(gm, kind, static))

    return compile_graph


def runner(gm, kind, static):
    began = time.perf_counter()
    made = Runner(constants_noted(gm), kind, static)
    took = time.perf_counter() - began
    COMPILED.append((kind, len(gm.graph.nodes), took))
    log.info("compiled %s graph of %d nodes in %.2f s, %d programs", kind, len(gm.graph.nodes), took, len(made.programs))
    return made


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

    def __init__(self, gm, kind, static):
        self.gm, self.kind, self.static, self.made = gm, kind, static, {}

    def __call__(self, *args):
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        if key not in self.made:
            from torch._subclasses.fake_tensor import FakeTensorMode
            from torch.fx.experimental.proxy_tensor import make_fx

            fake = FakeTensorMode()
            inputs = [fake.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
            with fake:
                traced = make_fx(self.gm, tracing_mode="real")(*inputs)
            self.made[key] = runner(traced, self.kind, self.static)
        return self.made[key](*args)


_SAID = set()


def say_breaks():
    """A line for each new reason that Dynamo split the model."""
    from torch._dynamo.utils import counters

    for reason in counters["graph_break"]:
        if reason not in _SAID:
            _SAID.add(reason)
            log.warning("graph break: %s", str(reason).splitlines()[0])

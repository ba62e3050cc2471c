"""An FX graph as a callable: runs of nodes that have rows become programs, what lies between runs on torch's CPU.

Every op left to the CPU is counted in `FALLBACKS` by name, so that nothing is slow or partial in silence.
"""

import collections
import operator

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from trine.torch.build import Unsupported, Value
from trine.torch.emit import Emitter, finish, overload_name, supports
from trine.torch.program import Program

FALLBACKS = collections.Counter()  # "aten.nonzero.default" -> calls
REASONS = {}  # the same names -> why


class Compiled:
    """A run of nodes as one program."""

    def __init__(self, nodes, used_later, name, static, programs):
        e = Emitter()
        self.takes, self.gives, self.specs, self.writes = [], [], [], []
        inside = set(nodes)
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside and source not in e.values:
                    self._take(e, source)
        results = []
        for node in nodes:
            if _is_write(node):
                e.values[node] = e.values[node.args[1]]
                self.writes.append((node.args[0], len(results)))
                self.specs.append(None)
                results.append(e.build.value(e.values[node], node.meta["val"].dtype, node.meta["val"].shape))
                continue
            e.node(node)
        for node in nodes:
            if node in used_later and not _is_write(node):
                flat, spec = tree_flatten(e.values[node], is_leaf=lambda v: isinstance(v, Value))
                self.gives.append((node, len(results), len(flat), spec))
                results += flat
        donated = self._donations(e, results)
        self.text, self.signature = finish(e, name, results, donated)
        fixed = {i for i, node in enumerate(self.takes) if node in static}
        self.program = Program(self.text, self.signature, fixed, device_of(self.takes, nodes))
        programs.append(self.program)

    def _take(self, e, source):
        val = source.meta.get("val")
        if isinstance(val, torch.Tensor):
            e.input(source, val, len(self.takes))
            self.takes.append(source)
        elif isinstance(val, (list, tuple)):
            raise Unsupported(f"a list of tensors from {source.target} between two programs")
        else:
            e.values[source] = val

    def _donations(self, e, results):
        """Inputs that are written at the end, where memory and type agree."""
        at = {node: i for i, node in enumerate(self.takes)}
        where = {}
        for r in results:
            where.setdefault(r.name, len(where))
        out, used = [], set()
        for target, r in self.writes:
            i = at.get(target)
            if i is None or e.signature.orders[i] or where[results[r].name] in used:
                continue
            used.add(where[results[r].name])
            out.append((i, where[results[r].name]))
        return out

    def __call__(self, env):
        args = [env[node] for node in self.takes]
        found = self.program.results(args)
        for target, r in self.writes:
            if env[target].data_ptr() != found[r].data_ptr():
                env[target].copy_(found[r])
        for node, start, count, spec in self.gives:
            env[node] = tree_unflatten(found[start : start + count], spec)


class Fallback:
    """One op by torch itself."""

    def __init__(self, node, why):
        self.node, self.name = node, str(node.target)
        if node.target is not operator.getitem:
            REASONS.setdefault(self.name, why)

    def __call__(self, env):
        FALLBACKS[self.name] += self.node.target is not operator.getitem
        args, kwargs = tree_map(lambda a: env[a] if isinstance(a, torch.fx.Node) else a, (self.node.args, self.node.kwargs))
        env[self.node] = self.node.target(*args, **kwargs)


def device_of(takes, nodes):
    for node in [*takes, *nodes]:
        for v in tree_flatten(node.meta.get("val"))[0]:
            if isinstance(v, torch.Tensor):
                return v.device
    return torch.device("cpu")


def _is_write(node):
    return overload_name(node.target) == "copy_.default" and node.args[0].op == "placeholder"


class Runner:
    """The graph, ready: call it with the graph's arguments."""

    def __init__(self, graph, name, static=()):
        self.placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        fixed = {self.placeholders[i] for i in static if i < len(self.placeholders)}
        self.output = next(n for n in graph.nodes if n.op == "output").args[0]
        self.constants = {n: n.meta["constant"] for n in graph.nodes if n.op == "get_attr"}
        self.programs, refused = [], {}
        while True:
            try:
                self.steps = self._steps(graph, name, fixed, refused)
                break
            except _Refused as r:
                refused[r.node] = str(r.__cause__)

    def _steps(self, graph, name, fixed, refused):
        nodes = [n for n in graph.nodes if n.op == "call_function"]
        self.programs.clear()
        runs, last, apart = [], None, set()
        for node in nodes:
            is_part = node.target is operator.getitem and node.args[0] in apart
            good = node not in refused and not is_part and (supports(node) or _is_write(node))
            if not good:
                apart.add(node)
            if good and last:
                runs[-1].append(node)
            else:
                runs.append([node])
            last = good
        position = {node: i for i, run in enumerate(runs) for node in run}
        used = {n for n in tree_flatten(self.output)[0] if isinstance(n, torch.fx.Node)}
        steps = []
        for i, run in enumerate(runs):
            later = {n for n in run if n in used or any(position.get(u, i) != i for u in n.users)}
            if run[0] in apart:
                steps.append(Fallback(run[0], refused.get(run[0], "it has no row")))
            else:
                steps.append(self._compiled(run, later, name, fixed))
        return steps

    def _compiled(self, run, later, name, fixed):
        try:
            return Compiled(run, later, name, fixed, self.programs)
        except Unsupported as e:
            node = getattr(e, "node", None)
            if node is None:
                raise
            raise _Refused(node) from e

    def __call__(self, *args):
        env = dict(zip(self.placeholders, args))
        env.update(self.constants)
        for step in self.steps:
            step(env)
        return [env[n] if isinstance(n, torch.fx.Node) else n for n in self.output]


class _Refused(Exception):
    def __init__(self, node):
        super().__init__(str(node))
        self.node = node

"""An FX graph as a callable: runs of nodes that have rows become programs, what lies between runs on torch's CPU.

What is decided about a graph is plain data (`planned`), so that a later process takes it from the compile cache. Every op
left to the CPU is counted in `FALLBACKS` by name, so that nothing is slow or partial in silence.
"""

import collections
import json
import operator

import torch
from torch.utils._pytree import tree_flatten, tree_map

from trine.torch import cache
from trine.torch.build import Unsupported, Value
from trine.torch.emit import Emitter, Signature, finish, memory_order, overload_name, supports
from trine.torch.program import Program

FALLBACKS = collections.Counter()  # "aten.nonzero.default" -> calls
REASONS = {}  # the same names -> why


def _is_write(node):
    return overload_name(node.target) == "copy_.default" and node.args[0].op == "placeholder"


_VIEWS = {
    "t.default", "transpose.int", "permute.default", "view.default", "alias.default", "detach.default", "unsqueeze.default",
    "squeeze.default", "squeeze.dim", "squeeze.dims", "expand.default", "select.int", "slice.Tensor"}  # fmt: skip


def views_of_inputs(graph):
    """Nodes that are an input seen otherwise, of inputs that are not written: torch gives them without a copy."""
    written = {n.args[0] for n in graph.nodes if n.op == "call_function" and _is_write(n)}
    out = set()
    for n in graph.nodes:
        if n.op == "call_function" and overload_name(n.target) in _VIEWS:
            source = n.args[0]
            if source in out or (source.op == "placeholder" and source not in written):
                out.add(n)
    return out


# deciding: graph -> plain data, nodes by their place in the graph


def planned(graph, name):
    """Steps of a graph: programs, and nodes that torch runs."""
    refused = {}
    while True:
        try:
            return _plan(graph, name, refused)
        except _Refused as r:
            refused[r.node] = str(r.__cause__)


def _plan(graph, name, refused):
    index_of = {node: i for i, node in enumerate(graph.nodes)}
    output = next(n for n in graph.nodes if n.op == "output").args[0]
    runs, last, apart = [], None, set()
    for node in (n for n in graph.nodes if n.op == "call_function"):
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
    used = {n for n in tree_flatten(output)[0] if isinstance(n, torch.fx.Node)}
    used -= views_of_inputs(graph)  # given by torch
    steps = []
    for i, run in enumerate(runs):
        later = {n for n in run if n in used or any(position.get(u, i) != i for u in n.users)}
        if run[0] in apart:
            steps.append({"node": index_of[run[0]], "why": refused.get(run[0], "it has no row")})
        else:
            try:
                steps.append(Run(run, later, index_of).written(name))
            except Unsupported as e:
                node = getattr(e, "node", None)
                if node is None:
                    raise
                raise _Refused(node) from e
    return steps


class _Refused(Exception):
    def __init__(self, node):
        super().__init__(str(node))
        self.node = node


class Run:
    """A run of nodes, written as one program."""

    def __init__(self, nodes, used_later, index_of):
        self.nodes, self.used_later, self.index_of = nodes, used_later, index_of
        self.takes, self.writes = [], []

    def written(self, name):
        e, results, gives = Emitter(), [], []
        inside = set(self.nodes)
        for node in self.nodes:
            for source in node.all_input_nodes:
                if source not in inside and source not in e.values:
                    self._take(e, source)
        for node in self.nodes:
            if _is_write(node):
                e.values[node] = e.values[node.args[1]]
                self.writes.append((node.args[0], len(results), node))
                results.append(e.build.value(e.values[node], node.meta["val"].dtype, node.meta["val"].shape))
                continue
            e.node(node)
        for node in self.nodes:
            if node in self.used_later and not _is_write(node):
                gives.append((self.index_of[node], _numbered(e, e.values[node], node.meta.get("val"), results)))
        text, signature = finish(e, name, results, self._donations(e, results))
        return {
            "text": text, "signature": signature.as_data(), "takes": [self.index_of[n] for n in self.takes],
            "writes": [(self.index_of[n], r, self.index_of[done]) for n, r, done in self.writes], "gives": gives,
        }  # fmt: skip

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
            if isinstance(r, Value):
                where.setdefault(r.name, len(where))
        out, used = [], set()
        for target, r, _ in self.writes:
            i = at.get(target)
            if i is None or e.signature.orders[i] or where[results[r].name] in used:
                continue
            used.add(where[results[r].name])
            out.append((i, where[results[r].name]))
        return out


def _numbered(e, value, val, results):
    """A node's value with the places of its tensors among the results, which grow; in the order torch's memory has."""
    if isinstance(value, (list, tuple)):
        return [_numbered(e, v, w, results) for v, w in zip(value, val)]
    if value is None:
        return None
    order = memory_order(val) if isinstance(val, torch.Tensor) and isinstance(value, Value) else None
    results.append(e.build.transpose(value, order) if order else value)
    return {"at": len(results) - 1, "back": [order.index(i) for i in range(len(order))] if order else None}


def graph_text(graph):
    """Everything that decides a graph's programs, the same in every process."""
    index_of = {node: i for i, node in enumerate(graph.nodes)}

    def one(a):
        if isinstance(a, torch.fx.Node):
            return f"%{index_of[a]}"
        if isinstance(a, (list, tuple)):
            return [one(v) for v in a]
        if isinstance(a, torch.Tensor):
            return [str(a.dtype), list(a.shape), list(a.stride()), a.storage_offset()]
        if isinstance(a, torch.device):
            return "device"
        return repr(a)

    lines = []
    for n in graph.nodes:
        kwargs = {k: one(v) for k, v in sorted(n.kwargs.items())}
        lines.append([n.op, str(n.target) if n.op == "call_function" else "", one(n.args), kwargs, one(n.meta.get("val"))])
    return json.dumps(lines)


# running


class Compiled:
    """A program between nodes of a graph."""

    def __init__(self, plan, nodes, static):
        self.takes = [nodes[i] for i in plan["takes"]]
        self.writes = [(nodes[i], r, nodes[done]) for i, r, done in plan["writes"]]
        self.gives = [(nodes[i], value) for i, value in plan["gives"]]
        signature = Signature.of_data(plan["signature"])
        fixed = {i for i, node in enumerate(self.takes) if node in static}
        self.program = Program(plan["text"], signature, fixed, device_of([*self.takes, *(n for n, _ in self.gives)]))

    def __call__(self, env):
        found = self.program.results([env[node] for node in self.takes])
        for target, r, node in self.writes:
            if env[target].data_ptr() != found[r].data_ptr():
                env[target].copy_(found[r])
            env[node] = env[target]
        for node, value in self.gives:
            env[node] = _taken(value, found)


def _taken(value, found):
    if isinstance(value, list):
        return [_taken(v, found) for v in value]
    if value is None:
        return None
    return found[value["at"]] if value["back"] is None else found[value["at"]].permute(value["back"])


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


def device_of(nodes):
    for node in nodes:
        for v in tree_flatten(node.meta.get("val"))[0]:
            if isinstance(v, torch.Tensor):
                return v.device
    return torch.device("cpu")


def _leads_to(node, output, views):
    """Whether a view is given, or a view of it is."""
    return node in output or any(u in views and _leads_to(u, output, views) for u in node.users)


class Runner:
    """The graph, ready: call it with the graph's arguments."""

    def __init__(self, graph, name, static=()):
        nodes = list(graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        fixed = {self.placeholders[i] for i in static if i < len(self.placeholders)}
        self.output = next(n for n in nodes if n.op == "output").args[0]
        self.constants = {n: n.meta["constant"] for n in nodes if n.op == "get_attr"}
        views = views_of_inputs(graph)
        self.views = [n for n in nodes if n in views and _leads_to(n, self.output, views)]
        plan = cache.get_or_make(f"{name} graph", graph_text(graph), len(nodes), lambda: planned(graph, name))
        self.steps = [Fallback(nodes[s["node"]], s["why"]) if "node" in s else Compiled(s, nodes, fixed) for s in plan]
        self.programs = [s.program for s in self.steps if isinstance(s, Compiled)]

    def __call__(self, *args):
        env = dict(zip(self.placeholders, args))
        env.update(self.constants)
        for step in self.steps:
            step(env)
        for n in self.views:
            env[n] = n.target(env[n.args[0]], *n.args[1:], **n.kwargs)
        return [env[n] if isinstance(n, torch.fx.Node) else n for n in self.output]

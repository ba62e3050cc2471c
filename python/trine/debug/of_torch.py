"""The graph of a torch module: what torch.export gives, in ATen ops, with the modules and lines that asked for them.

Ops run alone on torch's CPU; in f64 every floating tensor and dtype is f64. On the chip all values are results of one
program, written by the rows that torch.compile uses.
"""

import functools
import operator
import re

import torch
from torch.utils._pytree import tree_flatten, tree_map

from trine.debug.graph import Graph, Leaf, Node, array_of
from trine.torch import export
from trine.torch.backend import constants_noted
from trine.torch.pieces import Runner

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def graph(module, args, kwargs=None, train=False):
    """Of module(*args, **kwargs); with `train`, of its loss and the gradients of its parameters."""
    module = export.as_module(module)
    if train:
        return of_gradients(module, args, kwargs)
    with torch.no_grad():
        made = export.exported(export.OnlyTensors(module), args, kwargs)
    sources = {node: name.removeprefix("model.") for node, name in export.sources_of(made.graph_signature).items()}
    state = {**made.state_dict, **made.constants}
    given = iter([t for t in tree_flatten((tuple(args), kwargs or {}))[0] if t is not None])
    weights = export.sources_of(made.graph_signature)
    values = {}
    for node in made.graph.nodes:
        if node.op == "placeholder":
            values[node] = (sources[node.name], "weight", state[weights[node.name]]) if node.name in sources else (node.name, "input", next(given))
    return write(made.graph_module, values, lambda n: n.removeprefix("model."))


def of_gradients(module, args, kwargs):
    found = export.with_gradients(module, args, kwargs)
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    flat = [t for t in tree_flatten((tuple(args), kwargs or {}))[0]]
    given = [(name, "weight", t.detach()) for name, t in held.items()] + [(f"input {i}", "input", t) for i, t in enumerate(flat)]
    placeholders = [n for n in found.nodes if n.op == "placeholder"]
    trained = [name for name, t in held.items() if t.requires_grad]
    names = ["loss", *[f"gradient of {name}" for name in trained]]
    gm = torch.fx.GraphModule(module, found)
    return write(gm, dict(zip(placeholders, given, strict=True)), str, names)


def write(gm, given, renamed, names=None):
    leaves, nodes, at = [], [], {}
    count = iter(range(1 << 40))
    constants_noted(gm)
    for n in gm.graph.nodes:
        if n.op == "placeholder" or n.op == "get_attr":
            name, kind, value = given[n] if n.op == "placeholder" else (str(n.target), "constant", n.meta["constant"])
            at[n] = next(count)
            leaves.append(Leaf(at[n], name, kind, value))
        elif n.op == "call_function":
            source = n.args[0] if n.target is operator.getitem else n  # a part of what an op gives is the op's
            val = n.meta.get("val")
            if not isinstance(val, torch.Tensor) or (source is not n and source in at):
                continue
            at[n] = next(count)
            ins = [at[i] for i in source.all_input_nodes if i in at]
            nodes.append(Node(op_name(source), scope_of(source), line_of(source), ins, [at[n]], [dtype_name(val)], [tuple(val.shape)], n, settings_of(source)))
    output = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    flat = [n for n in tree_flatten(output)[0] if isinstance(n, torch.fx.Node)]
    outputs = [(names[i] if names and i < len(names) else "output" if len(flat) == 1 else f"output {i}", at[n]) for i, n in enumerate(flat)]
    return Graph("torch", leaves, nodes, outputs, functools.partial(replay, at), functools.partial(on_chip, gm, at, leaves, flat))


def dtype_name(t):
    return str(t.dtype).removeprefix("torch.")


def op_name(n):
    return str(n.target).removeprefix("aten.").rsplit(".", 1)[0] if isinstance(n.target, torch._ops.OpOverload) else getattr(n.target, "__name__", str(n.target))


def scope_of(n):
    stack = n.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    path = re.sub(r"^L\['self'\]\.?", "", path)
    return "" if path == "model" else path.removeprefix("model.").replace(".", "/")


def line_of(n):
    found = re.findall(r'File "([^"]+)", line (\d+)', n.meta.get("stack_trace") or "")
    own = [f for f in found if "/torch/" not in f[0]]
    file, line = (own or found or [("", "")])[-1]
    return f"{file.rsplit('/', 1)[-1]}:{line}" if file else ""


def settings_of(n):
    """What the op is told beside tensors: numbers and the like, by their place."""
    settings = {}
    for i, a in enumerate(n.args):
        if not any(isinstance(x, torch.fx.Node) for x in tree_flatten(a)[0]):
            settings[f"argument {i}"] = str(a)
    return settings | {k: str(v) for k, v in n.kwargs.items() if not isinstance(v, torch.fx.Node) and k not in ("device", "pin_memory", "layout")}


def widened(v):
    if isinstance(v, torch.Tensor) and v.dtype in FLOATS:
        return v.detach().cpu().to(torch.float64)
    return v.detach().cpu() if isinstance(v, torch.Tensor) else torch.float64 if v in FLOATS[:3] and isinstance(v, torch.dtype) else v


def narrowed(v):
    return v.detach().cpu() if isinstance(v, torch.Tensor) else v


def replay(at, node, values, is_wide):
    n = node.what.args[0] if node.what.target is operator.getitem else node.what
    known = dict(zip([i for i in n.all_input_nodes if i in at], values, strict=True))

    def part(found):
        return [found if n is node.what else found[node.what.args[1]]]

    def call(convert):
        def one(a):
            if isinstance(a, torch.fx.Node):
                found = known[a] if a in known else a.meta["val"]
                return tree_map(convert, found) if isinstance(found, (list, tuple)) else convert(found)
            return torch.device("cpu") if isinstance(a, torch.device) else convert(a)

        args = torch.fx.node.map_aggregate(n.args, one)
        kwargs = torch.fx.node.map_aggregate(n.kwargs, one)
        with torch.no_grad():
            return n.target(*args, **kwargs)

    if not is_wide:
        return part(call(narrowed))
    try:
        return part(tree_map(widened, call(widened)))
    except (RuntimeError, TypeError, NotImplementedError):  # no kernel in f64: in its own types
        wanted = {i: i.meta["val"].dtype for i in known if isinstance(i.meta.get("val"), torch.Tensor)}
        known = {i: v.to(wanted[i]) if isinstance(v, torch.Tensor) and i in wanted else v for i, v in known.items()}
        return part(tree_map(widened, call(narrowed)))


def on_chip(gm, at, leaves, flat):
    """({id: array} of every value, outputs), from one program with all values as results."""
    shown = [n for n in gm.graph.nodes if n in at and n.op == "call_function" and isinstance(n.meta.get("val"), torch.Tensor)]
    given = [leaf.value.detach().cpu() if isinstance(leaf.value, torch.Tensor) else leaf.value for leaf in leaves if leaf.kind != "constant"]
    old = next(n for n in gm.graph.nodes if n.op == "output")
    results = old.args
    plain = Runner(with_output(gm, tuple(flat)), "debug")(*given)
    found = Runner(with_output(gm, tuple(shown)), "debug")(*given)
    old.args = results
    values = {at[n]: array_of(v) for n, v in zip(shown, found, strict=True)}
    values |= {leaf.id: array_of(leaf.value) for leaf in leaves if isinstance(leaf.value, torch.Tensor)}
    return values, [array_of(v) for v in plain]


def with_output(gm, nodes):
    next(n for n in gm.graph.nodes if n.op == "output").args = (nodes,)
    return gm.graph

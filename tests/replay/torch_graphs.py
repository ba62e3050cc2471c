"""FX graphs of ATen ops as JSON, both ways, and what our rows make of them: torch's part of the corpus.

A record has the nodes in order: placeholders with the types of their tensors, calls with overload, arguments and the types
of their results, and the output. Reading one back needs nothing of torch but its ops' schemas.
"""

import json
import operator

import torch

KINDS = {"dtype": torch.dtype, "memory_format": torch.memory_format, "layout": torch.layout}


# writing


def value_data(v):
    """A type in meta["val"]."""
    if isinstance(v, torch.Tensor):
        return {"tensor": [str(v.dtype)[6:], list(map(int, v.shape)), list(map(int, v.stride())), int(v.storage_offset())]}
    if isinstance(v, (list, tuple)):
        return {"list": [value_data(x) for x in v]}
    return {"is": v}


def argument_data(a, place):
    if isinstance(a, torch.fx.Node):
        return {"node": place[a]}
    if isinstance(a, (list, tuple)):
        return {"list": [argument_data(x, place) for x in a]}
    if isinstance(a, torch.device):
        return {"device": a.type}
    for name, kind in KINDS.items():
        if isinstance(a, kind):
            return {name: str(a)[6:]}
    if a is None or isinstance(a, (bool, int, float, str)):
        return a
    if isinstance(a, complex):
        return {"complex": [a.real, a.imag]}
    raise TypeError(f"an argument of {type(a).__name__}")


def target_name(target):
    return "getitem" if target is operator.getitem else str(target)


def record(graph):
    """Data that JSON can hold of a graph without modules and attributes."""
    place, nodes = {}, []
    for node in graph.nodes:
        place[node] = len(place)
        if node.op == "placeholder":
            nodes.append({"in": value_data(node.meta["val"])})
        elif node.op == "call_function":
            kwargs = {k: argument_data(v, place) for k, v in node.kwargs.items()}
            args = [argument_data(a, place) for a in node.args]
            nodes.append({"call": target_name(node.target), "args": args, "kwargs": kwargs, "val": value_data(node.meta.get("val"))})
        elif node.op == "output":
            nodes.append({"out": argument_data(list(node.args[0]), place)})
        else:
            raise TypeError(f"a node of {node.op}")
    return nodes


# reading


def value_of(data):
    if "tensor" in data:
        dtype, shape, stride, offset = data["tensor"]
        room = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else offset
        base = torch.empty(max(room, 0), dtype=getattr(torch, dtype), device="meta")
        return base.as_strided(shape, stride, offset)
    return [value_of(x) for x in data["list"]] if "list" in data else data["is"]


def argument_of(data, nodes):
    if not isinstance(data, dict):
        return data
    ((kind, x),) = data.items()
    if kind == "node":
        return nodes[x]
    if kind == "list":
        return [argument_of(v, nodes) for v in x]
    if kind == "complex":
        return complex(*x)
    return torch.device(x) if kind == "device" else getattr(torch, x)


def target_of(name):
    if name == "getitem":
        return operator.getitem
    space, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), op), overload)


def graph_of(data):
    graph, nodes = torch.fx.Graph(), []
    for i, d in enumerate(data):
        if "in" in d:
            node = graph.placeholder(f"x{i}")
            node.meta["val"] = value_of(d["in"])
        elif "call" in d:
            kwargs = {k: argument_of(v, nodes) for k, v in d["kwargs"].items()}
            node = graph.call_function(target_of(d["call"]), tuple(argument_of(a, nodes) for a in d["args"]), kwargs)
            node.meta["val"] = value_of(d["val"])
        else:
            node = graph.output(argument_of(d["out"], nodes))
        nodes.append(node)
    return graph


def programs_of(data, name):
    """(what the rows made of a graph as text, [StableHLO of each program])"""
    from trine.torch import pieces

    steps = pieces.planned(graph_of(data), name)
    texts = [s["text"] for s in steps if "text" in s]
    said = "".join(json.dumps({k: v for k, v in s.items() if k != "text"}) + "\n" + s.get("text", "") for s in steps)
    return said, [t if isinstance(t, bytes) else t.encode() for t in texts]

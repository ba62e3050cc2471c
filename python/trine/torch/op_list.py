"""The ops of an exported graph: how often each is there, whether a program can hold it, and the user's lines that ask for it.

torch_neuronx.analyze and `trine audit --model` show the same rows.
"""

import os
import re

import torch

from trine.torch.emit import supports
from trine.torch.export import lines_of

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)


def line_of(node):
    """"file:line  source" of the user's innermost frame; "" where the graph has none (torch notes frames of forward() alone)."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n?\s*([^\n]*)', node.meta.get("stack_trace") or "")
    users = [f for f in frames if not f[0].startswith(_OURS)]
    return "{}:{}  {}".format(*users[-1]) if users else ""


def op_rows(graph, module, args, kwargs=None):
    """[{op, count, runs_on, lines}] of the ATen ops of a graph, those that a program cannot hold first."""
    rows = {}
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        row = rows.setdefault(str(node.target), {"op": str(node.target), "count": 0, "runs_on": "neuron", "lines": []})
        row["count"] += 1
        if not supports(node):
            row["runs_on"] = "cpu"
        line = line_of(node)
        if line and line not in row["lines"]:
            row["lines"].append(line)
    if any(not row["lines"] for row in rows.values()):
        lines_by_op = lines_of(module, args, kwargs)
        for row in rows.values():
            row["lines"] = row["lines"] or [lines_by_op.get(row["op"], "unknown line")]
    return sorted(rows.values(), key=lambda r: (r["runs_on"] != "cpu", -r["count"], r["op"]))

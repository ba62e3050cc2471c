"""torch_neuronx: trace, analyze, DataParallel, dynamic_batch_size. A trace is a ScriptModule: torch.jit saves and loads it.

The module holds the weights as buffers and one program; `inputs` must have the shapes it was traced for.
"""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from trine.torch import export
from trine.torch.build import Unsupported
from trine.torch.emit import supports


def _inputs(example_inputs):
    return tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)


def _exported(func, example_inputs):
    module = export.as_module(func)
    was_training = module.training
    module.eval()
    try:
        return export.exported(module, _inputs(example_inputs))
    finally:
        module.train(was_training)


def trace(func, example_inputs, compiler_workdir=None, compiler_args=None, **_):
    """Compiles a module or function for these inputs; the result is called, saved and loaded as a ScriptModule."""
    exported = _exported(func, example_inputs)
    refused = sorted({str(n.target) for n in exported.graph.nodes if not supports(n)})
    if refused:
        raise Unsupported(
            f"trace: {', '.join(refused)} cannot be part of a program; analyze() lists them with their places, and "
            "torch.compile(backend=\"neuron\") runs them on the CPU between programs"
        )
    text, weights, spec = _program(exported)
    traced = _Traced(text, weights, spec)
    return torch.jit.trace(traced, _inputs(example_inputs), check_trace=False, strict=False)


def _program(exported):
    names = exported.graph_signature
    if names.buffers_to_mutate:
        raise Unsupported(f"trace: the model writes its buffers {sorted(names.buffers_to_mutate.values())}")
    held = {**dict(exported.named_parameters()), **dict(exported.named_buffers()), **exported.constants}
    sources = export.sources_of(names)
    text, signature, weights = export.emitted(exported.graph, sources, "trace")
    if "seed" in signature.inputs:
        raise Unsupported("trace: the model draws random numbers")
    return text, [held[sources[n.name]].detach().cpu().contiguous() for n in weights], exported.call_spec.out_spec


class _Traced(torch.nn.Module):
    def __init__(self, text, weights, spec):
        super().__init__()
        self.program = torch.classes.neuron.Program(text)
        self.names = [f"weight_{i}" for i in range(len(weights))]
        self.spec = spec
        for name, w in zip(self.names, weights):
            self.register_buffer(name, w)

    def forward(self, *inputs):
        results = torch.ops.neuron.run(self.program, [getattr(self, n) for n in self.names], list(inputs))
        out = tree_unflatten(results, self.spec)
        return dict(out) if isinstance(out, dict) else tuple(out) if isinstance(out, (list, tuple)) else out


def analyze(func, example_inputs, compiler_workdir=None, **_):
    """Which ops of the model a program can hold: counts, and the places of those it cannot."""
    exported = _exported(func, example_inputs)
    calls = [n for n in exported.graph.nodes if n.op == "call_function"]
    bad = {}
    for n in calls:
        if not supports(n):
            row = bad.setdefault(str(n.target), {"kind": str(n.target), "failureAt": "neuronx-cc", "instances": []})
            row["instances"].append((n.meta.get("stack_trace") or "unknown place").strip().splitlines()[-1])
    rows = [{**r, "count": len(r["instances"])} for r in bad.values()]
    percent = 100.0 * (1 - sum(r["count"] for r in rows) / max(len(calls), 1))
    return {"torch_neuronx_version": "trine", "supported_operators": {"aten": _counts(calls)}, "unsupported_operators": rows,
            "percent_supported": round(percent, 1)}


def _counts(calls):
    out = {}
    for n in calls:
        if supports(n):
            out[str(n.target)] = out.get(str(n.target), 0) + 1
    return out


class _AnyBatch(torch.nn.Module):
    """A trace for any batch: pieces of the traced size, the last one filled up."""

    def __init__(self, traced, size, dim=0):
        super().__init__()
        self.traced, self.size, self.dim = traced, size, dim

    def forward(self, *inputs):
        total = inputs[0].shape[self.dim]
        pieces = []
        for at in range(0, total, self.size):
            part = [x.narrow(self.dim, at, min(self.size, total - at)) for x in inputs]
            short = self.size - part[0].shape[self.dim]
            if short:
                part = [torch.cat([x, *[x.narrow(self.dim, 0, 1)] * short], self.dim) for x in part]
            pieces.append(tree_flatten(self.traced(*part)))
        spec = pieces[0][1]
        joined = [torch.cat(ts, self.dim).narrow(self.dim, 0, total) for ts in zip(*[p[0] for p in pieces])]
        return tree_unflatten(joined, spec)


def _traced_batch(traced, dim=0):
    """The batch a trace was made for, from the type of its program's first input."""
    import re

    count = sum(1 for n, _ in traced.named_buffers() if n.startswith("weight_"))
    kinds = re.findall(r"%arg\d+: tensor<([^>]*)>", traced.program.text().split("\n")[1])
    return int(kinds[count].split("x")[dim])


def dynamic_batch_size(traced):
    """The same model for any batch size."""
    return _AnyBatch(traced, _traced_batch(traced))


class DataParallel(torch.nn.Module):
    """A batch cut over cores; the pieces have the traced size."""

    def __init__(self, model, device_ids=None, dim=0, set_dynamic_batching=True):
        super().__init__()
        self.model, self.device_ids = _AnyBatch(model, _traced_batch(model, dim), dim), device_ids
        self.num_workers = 2

    def forward(self, *inputs):
        return self.model(*inputs)


def move_trace_to_device(trace, device_id):
    return trace


def async_load(trace, enable=True):
    return trace


def lazy_load(trace, enable=True):
    return trace

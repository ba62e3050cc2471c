"""torch_neuronx: trace, analyze, DataParallel, dynamic_batch_size, replace_weights. A trace is a ScriptModule: torch.jit
saves and loads it.

The module holds the weights as buffers and one program; `inputs` must have the shapes it was traced for.
"""

import concurrent.futures
import io
import os
import re
import time
import warnings
import zipfile

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from trine.torch import cache, export
from trine.torch.build import Unsupported
from trine.torch.emit import supports
from trine.torch.op_list import op_rows


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
    """Compiles a module or function for these inputs; the result is called, saved and loaded as a ScriptModule.

    compiler_args: neuronx-cc's, of which `--auto-cast` and `--auto-cast-type` change values.
    """
    began = time.perf_counter()
    exported = _exported(func, example_inputs)
    refused = sorted({str(n.target) for n in exported.graph.nodes if not supports(n)})
    if refused:
        raise Unsupported(
            f"trace: {', '.join(refused)} cannot be part of a program; analyze() lists them with their places, and "
            "torch.compile(backend=\"neuron\") runs them on the CPU between programs"
        )
    text, weights, spec = _program(exported)
    flags = compiler_args if isinstance(compiler_args, str) else " ".join(map(str, compiler_args or ()))
    traced = _Traced(text, flags, weights, spec)
    make = _quietly(lambda: torch.jit.trace(traced, _inputs(example_inputs), check_trace=False, strict=False))
    made = make()
    ops = sum(n.op == "call_function" for n in exported.graph.nodes)
    cache.say(f"compiled trace, {ops} ops, in {time.perf_counter() - began:.1f} s, kept in the trace")
    return made


def _program(exported):
    names = exported.graph_signature
    if names.buffers_to_mutate:
        raise Unsupported(f"trace: the model writes its buffers {sorted(names.buffers_to_mutate.values())}")
    held = {**dict(exported.named_parameters()), **dict(exported.named_buffers()), **exported.constants}
    sources = export.sources_of(names)
    text, signature, weights = export.emitted(exported.graph, sources, "trace")
    if "seed" in signature.inputs:
        raise Unsupported("trace: the model draws random numbers")
    named = [(sources[n.name], held[sources[n.name]].detach().cpu().contiguous().clone()) for n in weights]
    return text, named, exported.call_spec.out_spec


class _Traced(torch.nn.Module):
    def __init__(self, text, flags, weights, spec):
        super().__init__()
        self.program = torch.classes.neuron.Program(text, flags)
        self.names = [f"weight_{i}__{_mangled(name)}" for i, (name, _) in enumerate(weights)]
        self.spec = spec
        for name, (_, w) in zip(self.names, weights):
            self.register_buffer(name, w)

    def forward(self, *inputs):
        results = torch.ops.neuron.run(self.program, [getattr(self, n) for n in self.names], tree_flatten(inputs)[0])
        out = tree_unflatten(results, self.spec)
        return dict(out) if isinstance(out, dict) else tuple(out) if isinstance(out, (list, tuple)) else out


def analyze(func, example_inputs, compiler_workdir=None, **_):
    """Which ops of the model a program can hold: counts, and the lines that ask for those it cannot."""
    rows = op_rows(_exported(func, example_inputs).graph, export.as_module(func), _inputs(example_inputs))
    bad = [{"kind": r["op"], "failureAt": "neuronx-cc", "instances": r["lines"], "count": r["count"]} for r in rows if r["runs_on"] == "cpu"]
    held = {r["op"]: r["count"] for r in rows if r["runs_on"] == "neuron"}
    total = sum(r["count"] for r in rows)
    percent = 100.0 * sum(held.values()) / max(total, 1)
    return {"torch_neuronx_version": "trine", "supported_operators": {"aten": held}, "unsupported_operators": bad,
            "percent_supported": round(percent, 1)}  # fmt: skip


# what is done with a trace


def _weights(traced):
    """Name in the model -> buffer of the trace."""
    return {n.split("__", 1)[1]: w for n, w in traced.named_buffers() if n.startswith("weight_")}


def _mangled(name):
    return name.replace(".", "__")


def _copied(traced, device="cpu"):
    """Another module with the same program; its weights on a device."""
    file = io.BytesIO()
    _save(traced, file)
    file.seek(0)
    return _load(file).to(device)


def _quietly(function):
    """torch calls its own way of saving ScriptModules deprecated; here it is how a trace is kept."""

    def call(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return function(*args)

    return call


_save, _load = _quietly(torch.jit.save), _quietly(torch.jit.load)


def _check_sums(file):
    """torch writes a checksum of every part of a file and reads none: weights that changed would be used."""
    if not isinstance(file, (str, os.PathLike)) or not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as parts:
        ours = any("trine/torch/old" in name for name in parts.namelist())
        if ours and torch.serialization.get_crc32_options() and (bad := parts.testzip()):
            raise zipfile.BadZipFile(f"the checksum of {bad} is another")


def load(file, *args, _load=torch.jit.load, **kwargs):
    """torch.jit.load; a file that is damaged or no trace is named, with what to do."""
    try:
        _check_sums(file)
        return _load(file, *args, **kwargs)
    except FileNotFoundError:
        raise
    except (RuntimeError, ValueError, EOFError, zipfile.BadZipFile) as e:
        name = f"{os.fspath(file)!r}" if isinstance(file, (str, os.PathLike)) else "the file"
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise RuntimeError(
            f"torch.jit.load: {name} is damaged, or no saved trace: {reason}\n"
            "  expected  what torch.jit.save wrote of torch_neuronx.trace's result\n"
            "  try       copying it again, or trace the model and save it again"
        ) from e


def replace_weights(traced, weights):
    """Puts a module's or a state dict's weights into a trace, which is not compiled again."""
    given = weights.state_dict() if isinstance(weights, torch.nn.Module) else dict(weights)
    held, found = _weights(traced), {}
    for name, new in given.items():
        old = held.get(_mangled(name))
        if old is None:
            continue  # a tied name, or a buffer that the program does not read
        if old.shape != new.shape or old.dtype is not new.dtype:
            raise ValueError(f"replace_weights: found {name} as {new.dtype}{list(new.shape)}; it was traced as {old.dtype}{list(old.shape)}")
        found[name] = (old, new)
    if not found:
        raise ValueError(f"replace_weights: none of {list(given)[:3]} is a weight of the trace; it has {list(held)[:3]}")
    with torch.no_grad():
        for old, new in found.values():
            old.copy_(new)


def dynamic_batch_size(traced):
    """The same trace for any batch: it is saved and loaded as such."""
    out = _copied(traced)
    out.program.take_any_batch()
    return out


def move_trace_to_device(trace, device_id):
    """The trace's weights in a core's memory."""
    trace.to(f"neuron:{device_id}")


def set_neuron_cores(trace, start_nc=-1, nc_count=-1):
    """The trace's weights in the memory of a core; several cores are DataParallel's."""
    if nc_count not in (-1, 1):
        raise ValueError(f"set_neuron_cores: found nc_count={nc_count}, expected 1; torch_neuronx.DataParallel uses several cores")
    move_trace_to_device(trace, max(start_nc, 0))


def _traced_size(traced, dim):
    """Of the first input, from the type of its program's parameter."""
    kinds = re.findall(r"%arg\d+: tensor<([^>]*)>", traced.program.text().split("\n")[1])
    return int(kinds[len(_weights(traced))].split("x")[dim])


class DataParallel(torch.nn.Module):
    """A batch cut over cores, each with the trace's weights in its own memory; they run at the same time.

    With dynamic batching pieces have the traced size and the last is filled up; without, every core takes an equal part.
    """

    def __init__(self, model, device_ids=None, dim=0, set_dynamic_batching=True):
        super().__init__()
        ids = list(range(torch.neuron.device_count())) if device_ids is None else list(device_ids)
        self.device_ids = [torch.device(d).index if isinstance(d, str) else int(d) for d in ids]
        bad = [d for d in self.device_ids if not 0 <= d < torch.neuron.device_count()]
        if bad or not ids:
            raise ValueError(f"DataParallel: found device_ids={ids}; this machine has cores 0 to {torch.neuron.device_count() - 1}")
        self.dim, self.dynamic, self.split_size = dim, set_dynamic_batching, _traced_size(model, dim)
        self.num_workers = len(self.device_ids)
        self.loaded = torch.nn.ModuleList(_copied(model, f"neuron:{d}") for d in self.device_ids)

    def disable_dynamic_batching(self):
        self.dynamic = False

    def forward(self, *inputs):
        total, size, cores = inputs[0].shape[self.dim], self.split_size, len(self.loaded)
        if not self.dynamic and total != size * cores:
            raise ValueError(f"DataParallel: found a batch of {total}; without dynamic batching it is {size} on each of {cores} cores, {size * cores}")
        parts = [self._part(inputs, at, min(size, total - at)) for at in range(0, max(total, 1), size)]
        with concurrent.futures.ThreadPoolExecutor(max(1, min(self.num_workers, cores))) as pool:
            found = list(pool.map(self._core, range(cores), [parts[k::cores] for k in range(cores)]))
        pieces = [found[i % cores][i // cores] for i in range(len(parts))]
        joined = [torch.cat(ts, self.dim).narrow(self.dim, 0, total) for ts in zip(*[p[0] for p in pieces])]
        return tree_unflatten(joined, pieces[0][1])

    def _part(self, inputs, at, count):
        part = [x.narrow(self.dim, at, count) for x in inputs]
        short = self.split_size - count
        return [torch.cat([x, torch.zeros_like(x.narrow(self.dim, 0, 1)).repeat_interleave(short, self.dim)], self.dim) for x in part] if short else part

    def _core(self, k, parts):
        """Pieces of one core, one after the other; results on the device the inputs were on."""
        out = []
        for part in parts:
            moved = [x.to(f"neuron:{self.device_ids[k]}") for x in part]
            flat, spec = tree_flatten(self.loaded[k](*moved))
            out.append(([t.to(part[0].device) for t in flat], spec))
        return out


def async_load(trace, enable_async_load=True):
    return trace  # programs run when they are called: there is no queue


def lazy_load(trace, enable_lazy_load=True):
    return trace  # weights are in the host's memory until the trace is moved

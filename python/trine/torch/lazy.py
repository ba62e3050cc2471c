"""Steps recorded on `xla`: what trine._torch asks when it meets a call, and a whole trace, for the first time.

A trace is a list of calls on storages. Views are not in it: a tensor is a storage, an offset, sizes and strides. Here it
becomes one program: each storage has a current value, read through `view` and written through `put`.
"""

import json
from typing import NamedTuple

import torch
from torch.utils._pytree import tree_map

from trine import _torch
from trine.torch import cache, disk, lines
from trine.torch.old import parallel_compile

_torch.set_extracting(parallel_compile.is_collecting())
RECORDED = []  # by the number C++ knows a call by


class Call:
    """A call as recorded: arguments with tensors replaced by Spec."""

    __slots__ = ("key", "name", "overload", "args", "specs", "numbers", "outputs", "seeded", "emission", "origin")

    def __init__(self, key, name, overload, args, numbers):
        self.key, self.name, self.overload, self.numbers = key, name, overload, list(numbers)
        self.specs = []
        self.args = tree_map(self._spec, list(args))

    def _spec(self, a):
        if not isinstance(a, torch.Tensor):
            return a
        self.specs.append(Spec(a))
        return self.specs[-1]


class Spec:
    """A tensor's type, sizes and strides; a number of the host keeps its value, for torch's promotion."""

    __slots__ = ("dtype", "dims", "strides", "number")

    def __init__(self, tensor):
        self.dtype, self.dims, self.strides = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())
        self.number = tensor.clone() if tensor.device.type == "cpu" and not tensor.dim() else None

    def tensor(self):
        return self.number if self.number is not None else torch.empty_strided(self.dims, self.strides, dtype=self.dtype, device="meta")


def key_of(name, overload, args, numbers):
    def tensor(a):
        return [str(a.dtype), list(a.shape), list(a.stride()), a.device.type == "cpu" and not a.dim()]

    return "lazy" + disk.call_text(name, overload, args, numbers, tensor)


def describe(name, overload, args, numbers):
    """What a call gives and writes; None where no row can: torch's CPU then runs it."""
    key = key_of(name, overload, args, numbers)
    call = Call(key, name, overload, args, numbers)
    call.origin = lines.of_call(f"{name}.{overload}" if overload else name) if lines.is_wanted() else None
    answer = disk.find(key)
    if answer is None:
        from trine.torch import lazy_emit

        answer = lazy_emit.described(call)
        if answer is None:
            return None
        disk.keep(key, answer)
    call.outputs, call.seeded, call.emission = answer["outputs"], answer["seeded"], None
    RECORDED.append(call)
    return {**answer, "number": len(RECORDED) - 1}


class Slot(NamedTuple):
    """A storage of a trace, as make_step (src/api/torch/module.cpp) lists it."""

    dtype: object
    elements: int
    has_memory: bool  # before the step
    is_given: bool  # written, and somebody still holds it
    layout: tuple | None  # (dims, sharding) where devices share it


def step(words, slots, mesh=None):
    """A program for a trace: from an earlier process, else written now."""
    calls, nodes = _listed(words)
    slots = [Slot(*s) for s in slots]
    text = json.dumps([[RECORDED[n].key for n in calls], nodes, [[str(d), *rest] for d, *rest in slots], *([mesh] if mesh else [])])
    if parallel_compile.is_collecting():
        return parallel_compile.collect("step", text, len(nodes), [RECORDED[n] for n in calls], nodes, slots)

    def make():
        from trine.torch import lazy_emit

        return lazy_emit.step([RECORDED[n] for n in calls], nodes, slots, mesh)

    return cache.get_or_make("step", text, len(nodes), make)


def _listed(words):
    """The distinct calls of a trace, and its nodes by their place among them."""
    calls, nodes, at = {}, [], 0
    while at < len(words):
        call = RECORDED[words[at]]
        node, at = [calls.setdefault(words[at], len(calls))], at + 1
        for _ in call.specs:
            node.append(words[at])
            at += 1
            if node[-1] >= 0:
                node.append(words[at])
                at += 1
        for _, _, write, *_ in call.outputs:
            if write < 0:
                node.append(words[at])
                at += 1
        nodes.append(node)
    return list(calls), nodes


"""Runs every ATen op that passes by on the emitter's row as well, and compares with what torch's CPU gives."""

import collections
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from trine.torch.build import Unsupported, Value
from trine.torch.emit import SEEDED, Emitter, finish, full_arguments, overload_name
from trine.torch.program import Program
from trine.torch.rows import ROWS

TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3,
             torch.complex64: 2e-5, torch.complex128: 1e-7}
# cancel: their error goes by what is summed
SUMS = {"sum", "mean", "cumsum", "mm", "bmm", "addmm", "native_layer_norm_backward", "native_group_norm_backward"}
# equal elements may come in any order: the elements at the indices are compared. -> which argument is the dim
ORDERS = {"sort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}
# made from uninitialised memory, or at random: only types are compared
VALUELESS = SEEDED | {n for n in ROWS if n.startswith(("empty", "new_empty"))}


def functional(name):
    """The row's name for an in-place overload: "add_.Tensor" is "add.Tensor"."""
    base, _, form = name.partition(".")
    return f"{base[:-1]}.{form}" if base.endswith("_") and not base.endswith("__") else name


def run_row(name, target, args, kwargs, result, seed=7):
    """The row's results for real arguments, as torch gives them."""
    e = Emitter()
    tensors = []

    def bring(a):
        if isinstance(a, torch.Tensor):
            e.input(len(tensors), a, len(tensors))
            tensors.append(a)
            return e.values[len(tensors) - 1]
        return a

    arguments = tree_map(bring, full_arguments(target, args, kwargs))
    if name in SEEDED:
        e.need_seed()
    out = e.call(name, arguments, result)
    flat = [out] if isinstance(out, Value) else tree_flatten(list(out))[0]
    text, signature = finish(e, "op", flat)
    return Program(text, signature).results(tensors, seed)


def differences(ours, theirs, scale=1.0):
    """Why the two differ, or None."""
    if theirs is None or ours is None or theirs._is_zerotensor():
        return None
    if tuple(ours.shape) != tuple(theirs.shape) or ours.dtype is not theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}"
    if theirs.is_conj():  # inside a dispatch mode torch itself does not look at the bit
        theirs = torch._conj_physical(theirs.conj())
    if theirs.dtype in TOLERANCE:
        tol = TOLERANCE[theirs.dtype]
        a, b = ours.to(torch.complex128 if theirs.is_complex() else torch.float64), theirs.detach().to(torch.complex128 if theirs.is_complex() else torch.float64)
        if torch.allclose(a, b, rtol=tol, atol=tol * max(scale_of(b), scale), equal_nan=True):
            return None
        worst = (a - b).abs().nan_to_num(math.inf).max().item() if a.numel() else 0
        return f"off by {worst:.3g} of {scale_of(b):.3g}"
    return None if torch.equal(ours, theirs) else f"{int((ours != theirs).sum())} of {ours.numel()} elements differ"


def scale_of(b):
    finite = b.abs()[torch.isfinite(b.abs())]
    return max(1.0, finite.max().item() if finite.numel() else 1.0)


class Differ(TorchDispatchMode):
    """Counts per overload what agreed, and keeps why others did not."""

    def __init__(self, only=None, limit=None):
        super().__init__()
        self.only, self.limit = only, limit
        self.passed, self.failed, self.lacking = collections.Counter(), collections.defaultdict(list), collections.Counter()
        self.declined = collections.defaultdict(collections.Counter)

    def __torch_dispatch__(self, target, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = overload_name(target)
        row = functional(name) if name else None
        before = args
        if row and row != name:
            before = tree_map(lambda a: a.clone() if isinstance(a, torch.Tensor) else a, args)
        result = target(*args, **kwargs)
        if row not in ROWS:
            if name:
                self.lacking[name] += 1
            return result
        if (self.only and row not in self.only) or (self.limit and self.passed[row] >= self.limit):
            return result
        if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in tree_flatten([args, result])[0]):
            return result
        single = target if row == name else _functional_target(row)
        if single is not None:
            self.compare(row, single, before, kwargs, result)
        return result

    def compare(self, row, target, args, kwargs, result):
        try:
            ours = run_row(row, target, args, kwargs, result)
        except Unsupported as e:
            self.declined[row][str(e)] += 1
            return
        except Exception as e:  # the sweep goes on; the report has it
            self.failed[row].append(f"{type(e).__name__}: {str(e)[:300]} {_shapes(args)}")
            return
        theirs = tree_flatten(result if isinstance(result, torch.Tensor) else list(result))[0]
        if row in VALUELESS:
            theirs = [None] * len(theirs)
        scale = 1.0
        if row.split(".")[0] in SUMS:
            scale = max([scale_of(a) for a in tree_flatten(list(args))[0] if isinstance(a, torch.Tensor) and a.is_floating_point()] or [1.0])
        if row.split(".")[0] in ORDERS and ours[0].dim():
            dim = full_arguments(target, args, kwargs)[2 if row == "sort.stable" else ORDERS[row.split(".")[0]]]
            keeps = ours[1].dim() == args[0].dim()
            at = ours[1] if keeps else ours[1].unsqueeze(dim)
            ours[1] = args[0].gather(dim, at)
            theirs = [theirs[0], theirs[0] if keeps else theirs[0].unsqueeze(dim)]
        why = [w for w in (differences(a, b, scale) for a, b in zip(ours, theirs)) if w]
        if why:
            self.failed[row].append(f"{why[0]} {_shapes(args)}")
        else:
            self.passed[row] += 1


def _functional_target(row):
    base, _, form = row.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, form, None) if packet is not None else None


def _shapes(args):
    def one(a):
        if isinstance(a, torch.Tensor):
            return f"{str(a.dtype)[6:]}{list(a.shape)}" + ("" if a.is_contiguous() else f"/{list(a.stride())}")
        return repr(a)

    return str(tree_map(one, list(args)))[:300]

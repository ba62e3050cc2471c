"""Dumps, replacement and the watch for NaN in torch: modules by hooks, eager ops by a dispatch mode, compiled graphs by
a program that gives every value.

Names are the modules' own; in compiled graphs the op follows. A step is a call of the outermost module.
"""

import contextlib
import os
import traceback

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from trine.debug import names
from trine.debug.graph import array_of

held = []  # blocks that last as long as the process
OURS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))


def at_import():
    """What the environment asks for, for the whole process."""
    held.append(block())
    held[-1].__enter__()


@contextlib.contextmanager
def block():
    """Hooks and the mode for what `names.wanted` asks for."""
    if not names.wanted:
        yield
        return
    with contextlib.ExitStack() as stack:
        if names.wanted.dump or names.wanted.replace:
            seen = Modules()
            before = torch.nn.modules.module.register_module_forward_pre_hook(seen.enter)
            after = torch.nn.modules.module.register_module_forward_hook(seen.leave, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        if names.wanted.fails:
            stack.enter_context(NanCheck())
        yield


class Modules:
    """Which module runs, by its name in the outermost one."""

    def __init__(self):
        self.depth, self.names, self.calls = 0, {}, {}

    def enter(self, module, args):
        if torch.compiler.is_compiling():
            return
        if self.depth == 0:
            self.names = {id(m): name for name, m in module.named_modules()}
            self.calls[id(module)] = self.calls.get(id(module), -1) + 1
            self.step = self.calls[id(module)]
        self.depth += 1

    def leave(self, module, args, out):
        if torch.compiler.is_compiling():
            return None
        self.depth = max(0, self.depth - 1)
        name = self.names.get(id(module)) or ("output" if self.depth == 0 else "")
        if not name or not isinstance(out, torch.Tensor):
            return None
        file = names.replacement(name)
        if file is not None:
            out = torch.from_numpy(names.read(file, array_of(out)).copy()).to(out.device)
        if names.wanted.dump and names.matches(name, names.wanted.dump):
            names.write(name, self.step, array_of(out))
        return out if file is not None else None


class NanCheck(TorchDispatchMode):
    """Each eager op's results."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if not is_made(op):
            return out
        self.calls += 1
        for t in numbers_of(out):
            if not torch.isfinite(t.detach().cpu()).all():
                inputs = [array_of(a) for a in numbers_of((args, kwargs))]
                kind = names.trouble(array_of(t), inputs)
                if kind:
                    name = str(op).removeprefix("aten.").rsplit(".", 1)[0]
                    raise FloatingPointError(names.message(kind, name, users_line(), f"op {self.calls}", array_of(t), inputs))
        return out


MADE = {"empty", "full", "fill_", "copy_", "_to_copy", "clone", "masked_fill", "masked_fill_", "where", "zeros", "detach", "empty_like", "new_empty",
        "empty_strided", "full_like", "constant_pad_nd", "view", "index", "cat", "select", "slice", "expand", "lift_fresh", "scalar_tensor"}  # fmt: skip


def is_made(op):
    """Ops that compute; others hand on or fill what somebody chose."""
    return str(op).removeprefix("aten.").split(".")[0] not in MADE


def numbers_of(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor) and t.is_floating_point() and t.device.type != "meta"
            and not isinstance(t, torch._subclasses.FakeTensor)]  # fmt: skip


def users_line():
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(OURS) and not frame.filename.startswith("<"):
            return f"{frame.filename}:{frame.lineno}  {frame.line}"
    return ""


class Shown:
    """A compiled graph that gives every value: dumped by scope and op, watched. Its results are the graph's."""

    def __init__(self, graph, make):
        from trine.debug import of_torch

        self.about, self.calls = of_torch, 0
        self.output = next(n for n in graph.nodes if n.op == "output")
        given = self.output.args
        self.shown = [n for n in graph.nodes if n.op == "call_function" and isinstance(n.meta.get("val"), torch.Tensor)]
        self.count = len(given[0])
        self.output.args = ((*given[0], *self.shown),)
        self.inner = make(graph)
        self.output.args = given
        self.placeholders = [n for n in graph.nodes if n.op == "placeholder"]

    def __call__(self, *args):
        step, self.calls = self.calls, self.calls + 1
        before = [a.clone() if isinstance(a, torch.Tensor) else a for a in args] if names.wanted.fails else args
        results = self.inner(*args)
        values = dict(zip(self.shown, results[self.count :], strict=True)) | dict(zip(self.placeholders, before, strict=True))
        for n in self.shown:
            name = f"{self.about.scope_of(n)}/{self.about.op_name(n)}".lstrip("/")
            if names.wanted.dump and names.matches(name, names.wanted.dump):
                names.write(f"{name}.{n.name}" if not name.endswith(n.name) else name, step, array_of(values[n]))
            if names.wanted.fails and isinstance(values[n], torch.Tensor) and values[n].is_floating_point() and is_made(n.target):
                if not torch.isfinite(values[n].detach().cpu()).all():
                    inputs = [array_of(values[i]) for i in n.all_input_nodes if isinstance(values.get(i), torch.Tensor)]
                    kind = names.trouble(array_of(values[n]), inputs)
                    if kind:
                        raise FloatingPointError(names.message(kind, name, self.about.line_of(n), step, array_of(values[n]), inputs))
        return results[: self.count]

"""A model or function as one program: torch.export above, the emitter below. Weights come first among its inputs."""

import os
import re
import traceback
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from trine.torch import decompose
from trine.torch.build import Unsupported
from trine.torch.emit import Emitter, finish, supports


CHECKS = (torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten._assert_scalar.default)


class Function(torch.nn.Module):
    """A plain function as a module; the modules it uses by name are part of it, so that their weights are weights."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.used = torch.nn.ModuleList(_modules_of(function))

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def _modules_of(function):
    owner = getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    found = [owner] + [c.cell_contents for c in getattr(function, "__closure__", None) or () if _is_filled(c)]
    if code is not None:
        found += [function.__globals__.get(name) for name in code.co_names]
    return list({id(m): m for m in found if isinstance(m, torch.nn.Module)}.values())


def _is_filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


class OnlyTensors(torch.nn.Module):
    """The tensors of a model's output, without the caches and the like beside them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        found = list(_tensors_of(self.model(*args, **kwargs)))
        if not found:
            raise TypeError(f"{type(self.model).__name__} gives no tensors, which is what is computed")
        return found


def _tensors_of(out):
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, (dict, list, tuple)):
        for part in out.values() if isinstance(out, dict) else out:
            yield from _tensors_of(part)


def as_module(model):
    return model if isinstance(model, torch.nn.Module) else Function(model)


def exported(module, args, kwargs=None):
    """As the module is: train() and eval() decide what dropout and the like do."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch copies a class of its own that it calls deprecated
        made = torch.export.export(module, tuple(args), kwargs or {}, strict=False).run_decompositions(decompose.table())
    for node in [n for n in made.graph.nodes if n.target in CHECKS]:  # types are checked when it is called
        made.graph.erase_node(node)
    return made


def _loss_of(out):
    loss = getattr(out, "loss", None)
    if loss is None:
        loss = out[0] if isinstance(out, (tuple, list)) else out
    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"train=True: the model gave {type(out).__name__}; expected a tensor, or an output with a loss")
    return loss if loss.dim() == 0 else loss.float().mean()


def with_gradients(module, args, kwargs=None):
    """The graph of the loss (the output's `loss`, or its mean) and of the gradients of all parameters that it has.

    Its first placeholders are the parameters and buffers.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_flatten, tree_unflatten

    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    flat, spec = tree_flatten((tuple(args), kwargs or {}))

    def joint(state, flat):
        args, kwargs = tree_unflatten(list(flat), spec)
        trained = [t for t in state if t.requires_grad]
        with torch.enable_grad():
            loss = _loss_of(torch.func.functional_call(module, dict(zip(held, state)), args, kwargs))
            grads = torch.autograd.grad(loss, trained, allow_unused=True)
        return [loss.detach(), *[g for g in grads if g is not None]]

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(t, is_trained=False):
        return mode.from_tensor(t).detach().requires_grad_(is_trained) if isinstance(t, torch.Tensor) else t

    with mode:
        both = make_fx(joint)([fake(t, t.requires_grad) for t in held.values()], list(map(fake, flat)))
        pure = torch.func.functionalize(both, remove="mutations_and_views")
        graph = make_fx(pure, decomposition_table=decompose.table())(list(map(fake, held.values())), list(map(fake, flat))).graph
    for node in [n for n in graph.nodes if n.target is torch.ops.aten.copy_.default]:  # into a buffer: not computed
        node.replace_all_uses_with(node.args[1])
        graph.erase_node(node)
    graph.eliminate_dead_code()
    return graph


_NOT_THE_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)


class _Lines(TorchDispatchMode):
    """The user's lines that ask for ops, as the model runs."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        for frame in reversed(traceback.extract_stack()[:-1]):
            if not frame.filename.startswith(_NOT_THE_USERS):
                self.found.setdefault(str(op), f"{frame.filename}:{frame.lineno}  {frame.line}")
                break
        return op(*args, **(kwargs or {}))


def lines_of(module, args, kwargs):
    """ATen op -> the first line that asks for it, as far as the model runs without data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad(), _Lines() as lines_by_op:
        try:
            module(*tree_map(lambda t: mode.from_tensor(t) if isinstance(t, torch.Tensor) else t, tuple(args)), **(kwargs or {}))
        except Exception:  # what it asked for until then is known
            pass
    return lines_by_op.found


def refuse_others(graph, what, module, args, kwargs):
    """An error that names what cannot be part of a program, with the line that asked for it."""
    refused = sorted({str(n.target) for n in graph.nodes if not supports(n)})
    if refused:
        lines_by_op = lines_of(module, args, kwargs)
        lines = "".join(f"\n  {op}\n    at {lines_by_op.get(op, 'an unknown line')}" for op in refused)
        raise Unsupported(
            f"{what}: {len(refused)} op{'s' if len(refused) > 1 else ''} cannot be part of a program:{lines}\n"
            'torch.compile(model, backend="neuron") runs them on the CPU between programs; trine.timed() times the rest'
        )


def emitted(graph, sources, name):
    """(text, signature, placeholders of the weights) of a graph; `sources` names the placeholders that are weights."""
    e = Emitter()
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    placeholders.sort(key=lambda n: n.name not in sources)  # weights first; the order among them stays
    weights = []
    for i, node in enumerate(placeholders):
        val = node.meta["val"]
        if not isinstance(val, torch.Tensor):
            e.values[node] = val
            continue
        e.input(node, torch.empty(val.shape, dtype=val.dtype, device="meta"), i)
        if node.name in sources:
            weights.append(node)
    for node in graph.nodes:
        if node.op == "call_function":
            e.node(node)
    output = next(n for n in graph.nodes if n.op == "output")
    results = [r for r in e.argument(output.args[0]) if r is not None]
    text, signature = finish(e, re.sub(r"\W", "_", name), results, merge=False)
    return text, signature, weights


def sources_of(signature):
    """Placeholders that are parameters, buffers or constants of the model -> their names in it."""
    lifted = getattr(signature, "inputs_to_lifted_tensor_constants", {})
    return {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **lifted}

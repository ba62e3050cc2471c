"""The dry run: a project's model is made by its own factory, exported, and every op listed with where it runs; then timed.

This is the one part of the audit that runs the project's code, and only where --model asks for it.
"""

import dataclasses
import importlib
import os
import sys
import traceback

from trine.command import UNSUPPORTED, USAGE, Stop

DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "i64": "int64", "i32": "int32", "u8": "uint8"}


@dataclasses.dataclass
class DryRun:
    """`ops`: rows of trine.torch.op_list; `time_ns` and what follows are None where an op cannot be part of a program."""

    model: str
    inputs: str
    instance: str
    ops: list
    train: bool = False
    parameters: int = 0
    time_ns: float | None = None
    band_ns: tuple | None = None
    bound: str = ""
    hbm_used_bytes: int | None = None
    hbm_room_bytes: int | None = None
    cost_usd: float | None = None
    why_not_timed: str = ""

    @property
    def on_cpu(self):
        return [r for r in self.ops if r["runs_on"] == "cpu"]

    @property
    def fits(self):
        return None if self.hbm_used_bytes is None else self.hbm_used_bytes <= self.hbm_room_bytes

    def as_dict(self):
        return {**dataclasses.asdict(self), "runs": not self.on_cpu, "fits": self.fits}


def read_inputs(text):
    """(args, kwargs) of --inputs: 1x128:int64,mask=1x128; what has no name is given by position."""
    import torch

    args, kwargs = [], {}
    for part in filter(None, (text or "").split(",")):
        name, _, rest = part.rpartition("=")
        shape, _, dtype = rest.partition(":")
        dtype = DTYPES.get(dtype, dtype or "float32")
        kind = getattr(torch, dtype, None)
        try:
            sizes = [int(n) for n in shape.split("x")] if shape else []
        except ValueError:
            sizes = None
        if sizes is None or any(n < 0 for n in sizes) or not isinstance(kind, torch.dtype):
            raise Stop(USAGE, f"found --inputs {part!r}, expected SIZESxOFxA:dtype such as 1x128:int64 or mask=1x128:bool")
        made = torch.rand(sizes).to(kind) if kind.is_floating_point else torch.zeros(sizes, dtype=kind)
        if name:
            kwargs[name] = made
        else:
            args.append(made)
    return args, kwargs


def made_by(model, root):
    """The module that `module:factory` gives; the project's folder is where it is looked for first."""
    import torch

    module, _, factory = model.partition(":")
    if not module or not factory:
        raise Stop(USAGE, f"found --model {model!r}, expected MODULE:FACTORY such as models.net:build")
    for folder in (os.getcwd(), os.path.abspath(root if os.path.isdir(root) else os.path.dirname(root) or ".")):
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
        for name in factory.split("."):
            found = getattr(found, name)
        made = found if isinstance(found, torch.nn.Module) else found()
    except Exception as e:  # the project's own, whatever it is
        raise Stop(UNSUPPORTED, f"--model {model} raised {type(e).__name__}: {e}{_users_line(e)}") from None
    if not isinstance(made, torch.nn.Module):
        raise Stop(UNSUPPORTED, f"--model {model} gave {type(made).__name__}; expected a torch.nn.Module")
    return made


def _users_line(e):
    import torch

    others = (os.path.dirname(os.path.dirname(os.path.dirname(__file__))), os.path.dirname(torch.__file__), "<frozen")
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith(others)]
    return f"\n  at {frames[-1].filename}:{frames[-1].lineno}  {frames[-1].line}" if frames else ""


def dry_run(model, inputs, root, instance=None, train=False) -> DryRun:
    from trine import reports
    from trine.nki import machine
    from trine.torch import export, op_list

    module = made_by(model, root)
    args, kwargs = read_inputs(inputs)
    instance = instance or machine.chosen_instance() or machine.DEFAULT_INSTANCE
    module.train(train)
    try:
        graph = export.with_gradients(module, args, kwargs) if train else export.exported(export.OnlyTensors(module), args, kwargs).graph
    except Exception as e:  # the model's own, or what torch.export cannot follow
        raise Stop(UNSUPPORTED, f"--model {model} with --inputs {inputs or '(none)'} cannot be exported: {_first(e)}{_users_line(e)}") from None
    found = DryRun(model, inputs or "", instance, op_list.op_rows(graph, module, args, kwargs), train, sum(p.numel() for p in module.parameters()))
    if found.on_cpu:
        found.why_not_timed = "ops run on the CPU between programs"
        return found
    try:
        report = reports.report(module, *args, instance=instance, train=train, **kwargs)
    except (ValueError, RuntimeError, MemoryError, TypeError) as e:
        found.why_not_timed = _first(e)
        return found
    numbers = report.numbers()
    found.time_ns, found.band_ns, found.bound = report.time_ns, report.band, report.bound
    found.hbm_used_bytes, found.hbm_room_bytes = numbers["hbm_used_bytes"], numbers["hbm_bytes"] // machine.chip(report.chip)["cores"]
    found.cost_usd = report.cost_usd
    return found


def _first(e):
    return f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"

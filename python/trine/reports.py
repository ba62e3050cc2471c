"""trine.report: the time of a kernel on an instance and where it goes, from shapes alone or from arrays.

The numbers and the text are C++'s (run/report/report.h); this object gives them names and ways to look at them.
"""

import dataclasses
import functools
import html
import inspect
import json
import linecache
import os
import sys
import tempfile

from trine import _core, progress
from trine.nki import arrays, dtypes, machine
from trine.nki.kernel import Kernel, jit
from trine.text import aligned, byte_count, duration
from trine.nki.trace import error

LINES_SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Engine:
    """One engine over the whole run, in ns; `waits` by what it waited for, longest first."""

    name: str
    busy_ns: float
    busy_share: float
    instructions: int
    waits: dict


class Report:
    """What a timed kernel means: time with its band, what bounds it, memory, energy, dollars.

    Prints as text. The numbers are attributes: time_ns and band (low, high), bound, engines (each with busy_ns and waits),
    flops, mfu, mbu, hbm_read_bytes, hbm_write_bytes, sbuf_read_bytes, sbuf_write_bytes, psum_read_bytes, psum_write_bytes,
    spill_save_bytes, spill_reload_bytes, sbuf_peak_bytes, psum_peak_bytes, energy_j, cost_usd, cost (by way to rent),
    messages, instance, chip and program. Of a kernel also `lines`: what each source line asks of the machine.
    """

    def __init__(self, timed, program, instance, messages=(), whole=None, files=None):
        """`timed`, `program`: the one, or the longest of several, of which `whole` are the numbers. `files`: a kernel's
        source files, by their names in the program."""
        self._timed, self.program, self._files = timed, program, files
        self._numbers = n = whole or timed.report()
        self.messages = [*messages, *n["notes"]]
        self._in_parts = whole is not None
        self.instance, self.chip = instance, n["chip"]
        self.time_ns: float = n["time_ns"]
        self.band: tuple = tuple(n["band_ns"])
        self.bound: str = n["bound"]["by"]
        self.engines = {
            name: Engine(name, e["busy_ns"], e["busy_pct"] / 100, e["instructions"], e["waits_ns"])
            for name, e in n["engines"].items()
        }
        self.flops: int = n["flops"]
        self.hbm_read_bytes: int = n["hbm_read_bytes"]
        self.hbm_write_bytes: int = n["hbm_write_bytes"]
        self.sbuf_read_bytes: int = n["sbuf_read_bytes"]
        self.sbuf_write_bytes: int = n["sbuf_write_bytes"]
        self.psum_read_bytes: int = n["psum_read_bytes"]
        self.psum_write_bytes: int = n["psum_write_bytes"]
        self.spill_save_bytes: int = n["spill_save_bytes"]  # of what was written to HBM
        self.spill_reload_bytes: int = n["spill_reload_bytes"]  # of what was read from it
        self.sbuf_peak_bytes: int = n["sbuf_peak_bytes"]
        chip = machine.chip(self.chip)
        self.psum_peak_bytes: int = n["psum_banks_used"] * chip["psum.bank_bytes"] * chip["partitions"]
        self.mfu, self.mbu = n["mfu_pct"] / 100, n["mbu_pct"] / 100
        self.energy_j: float = n["energy_j"]
        self.cost_usd: float | None = n.get("cost_usd")
        self.cost: dict = n["cost"]  # by way to rent; watts and joules of chip, host and building

    @property
    def busy_ns(self) -> dict:
        """How long each engine works."""
        return {name: e.busy_ns for name, e in self.engines.items()}

    @property
    def waits(self) -> dict:
        """What each engine waits for, in ns, longest first."""
        return {name: e.waits for name, e in self.engines.items()}

    @functools.cached_property
    def lines(self) -> list:
        """Of each line of a kernel, the longest first: file, line, count (instructions), busy_ns by unit, waited_ns,
        hbm_read_bytes, hbm_write_bytes, spill_save_bytes, spill_reload_bytes."""
        return self._timed.line_totals(self.program) if self._files is not None else []

    def source(self, line) -> str:
        """The text of one of `lines`."""
        return linecache.getline((self._files or {}).get(line["file"], line["file"]), line["line"]).strip()

    def numbers(self) -> dict:
        return {**self._numbers, "messages": self.messages, **({"lines": self.lines} if self.lines else {})}

    def to_json(self) -> str:
        """All numbers and messages as one JSON object, with a version."""
        return json.dumps({"version": 1, **self.numbers()})

    def trace(self, path):
        """Writes every instruction's time as .json or .json.gz, which Perfetto opens."""
        return _core.save_trace(self.program, self.instance, str(path))

    def picture(self, path):
        """Draws how busy each engine is over time, as .svg or .png."""
        return _core.save_picture(self.program, self.instance, str(path))

    def _drawn(self, kind) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"picture.{kind}")
            self.picture(path)
            with open(path, "rb") as f:
                return f.read()

    def _repr_svg_(self):
        return self._drawn("svg").decode()

    def _repr_png_(self):
        return self._drawn("png")

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>{self._repr_svg_()}"

    def __str__(self):
        text = str(self._timed)
        notes = "".join(f"  note      {m}\n" for m in self.messages if m not in text)
        if self._in_parts:
            notes = f"  in all    {self.time_ns / 1000:,.1f} µs on the chip; above is the longest part\n" + notes
        return text.rstrip("\n") + ("\n" + notes.rstrip("\n") if notes else "") + self._line_text()

    def _line_text(self):
        """A kernel's spill, and its lines: how long each keeps the unit that it keeps longest."""
        if not self.lines:
            return ""
        saved, reloaded = self.spill_save_bytes, self.spill_reload_bytes
        spill = f"{byte_count(saved)} saved, {byte_count(reloaded)} reloaded" if saved or reloaded else "none"
        rows = []
        for line in self.lines[:LINES_SHOWN]:
            unit, busy = max(line["busy_ns"].items(), key=lambda kv: kv[1])
            spilled = line["spill_save_bytes"] + line["spill_reload_bytes"]
            rows.append([f"  {line['file']}:{line['line']}", f"{line['count']:,}×", duration(busy), unit,
                         self.source(line)[:60] + (f"  ({byte_count(spilled)} of it spill)" if spilled else "")])  # fmt: skip
        more = len(self.lines) - LINES_SHOWN
        rest = f"\n  … and {more} lines that take less" if more > 0 else ""
        return f"\n  spill     {spill}\n\n{aligned(rows, right=(1, 2))}{rest}"

    def __repr__(self):
        return f"<Report {self.program.name} on {self.instance}: {self.time_ns / 1000:.1f} µs, bound by {self.bound}>"


class Explanation:
    """What bounds a kernel and what would help, with the kernel's own lines. Prints as text; the parts are in `parts`."""

    def __init__(self, program, instance, every=False):
        self.text, self.parts = _core.explain(program, instance, every)
        self.advice = self.parts.get("advice", [])

    def to_json(self) -> str:
        """The parts as one JSON object, with a version."""
        return json.dumps({"version": 1, **self.parts})

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self):
        return self.text.rstrip("\n")

    __repr__ = __str__


def as_kernel(kernel) -> Kernel:
    """The kernel itself, the one that a benchmark times, or a plain function as one."""
    kernel = getattr(kernel, "kernel", kernel)
    if inspect.isfunction(kernel):
        kernel = jit(kernel)
    if not isinstance(kernel, Kernel):
        raise error("NKI003", f"trine.report of {kernel!r}", "a function decorated with @nki.jit")
    return kernel


def compile_for(kernel, args, kwargs, instance=None, dtype="float32"):
    """(Compiled, array arguments, instance name) of a kernel for an instance, or for its own target."""
    kernel = as_kernel(kernel)
    if instance is None:
        chip = machine.target_chip(kernel.target, kernel.where())
        instance = machine.instance_of_chip(chip)
    chip = machine.instance(instance)["chip"]
    everything = [*args, *kwargs.values()]
    bare = not any(arrays.is_array(a) or _is_pair(a) for a in everything)
    args = [_abstract(a, bare, dtype) for a in args]
    compiled, given = kernel.compiled(chip, args, {k: _abstract(v, bare, dtype) for k, v in kwargs.items()})
    return compiled, given, instance


def _is_pair(a):
    """((128, 512), "bfloat16")"""
    return isinstance(a, tuple) and len(a) == 2 and isinstance(a[0], tuple) and dtypes.find(a[1]) is not None


def _abstract(argument, bare, dtype):
    """A (shape, dtype) pair stands for an array; so does a bare shape when no argument says its dtype."""
    if _is_pair(argument):
        return arrays.ShapeDtype(*argument)
    if bare and isinstance(argument, tuple) and argument and all(isinstance(n, int) for n in argument):
        return arrays.ShapeDtype(argument, dtype)
    return argument


def _with_dtype(kernel, dtype, kwargs):
    """A kernel with a dtype of its own gets it."""
    return {**kwargs, "dtype": dtype} if "dtype" in inspect.signature(as_kernel(kernel)).parameters else kwargs


def explain(kernel, *args, instance=None, dtype="float32", all=False, **kwargs) -> Explanation:
    """Says in words what bounds a kernel on an instance and what would help; arguments as for trine.report."""
    compiled, _, instance = compile_for(kernel, args, _with_dtype(kernel, dtype, kwargs), instance, dtype)
    return Explanation(compiled.program, instance, all)


def _report_program(artifact, instance, auto_cast, weights, name):
    """A StableHLO program compiled for one core and timed."""
    from trine.estimate.parts import notes_of, programs_of, report_of

    chip = machine.instance(instance)["chip"]
    with progress.stage(f"compiling {name} for {chip}"):
        compiled = _core.compile_device(artifact, chip, auto_cast, "bf16", list(weights))
    with progress.stage(f"timing {name} on {instance}"):
        programs = programs_of(compiled)
        timed = [_core.time(program, instance) for program in programs]
        longest = max(range(len(timed)), key=lambda i: timed[i].time_fs)
        whole = report_of(compiled, instance) if len(programs) > 1 else None
        return Report(timed[longest], programs[longest], instance, notes_of(compiled), whole)


def _report_jitted(function, args, kwargs, instance):
    """The function's program for one core, from its shapes; every input is taken to change from call to call."""
    from trine.estimate.lowering import stablehlo

    cast = kwargs.pop("auto_cast", "none")
    instance = instance or machine.chosen_instance() or machine.DEFAULT_INSTANCE
    with machine.asked_for(machine.instance(instance)["chip"]):
        artifact = stablehlo(function, *args, lines=True, **kwargs)
    return _report_program(artifact, instance, cast, (), getattr(function, "__name__", "a program"))


def _is_torch(model, args, kwargs):
    torch = sys.modules.get("torch")
    if torch is None or isinstance(model, Kernel) or isinstance(getattr(model, "kernel", None), Kernel):
        return False
    given = [x for a in [*args, *kwargs.values()] for x in (a if isinstance(a, (list, tuple)) else [a])]
    given += [x for a in args if isinstance(a, dict) for x in a.values()]
    return isinstance(model, torch.nn.Module) or (callable(model) and any(isinstance(x, torch.Tensor) for x in given))


def _is_jax(function, args, kwargs):
    """Whether it is a function for jax.jit: jitted, or a plain one that is given JAX's arrays or shapes."""
    if hasattr(function, "trace") and hasattr(function, "lower"):
        return True
    jax = sys.modules.get("jax")
    if jax is None or isinstance(function, Kernel) or isinstance(getattr(function, "kernel", None), Kernel):
        return False
    return any(isinstance(x, (jax.Array, jax.ShapeDtypeStruct)) for x in jax.tree.leaves((args, kwargs)))


def _report_torch(model, args, kwargs, instance, auto_cast="none", train=False):
    """The model's program for one core from the shapes of example inputs; parameters and buffers are weights."""
    from trine.torch import export

    args = _examples(args)
    if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
        args, kwargs = (), args[0]
    name = type(model).__name__ if hasattr(model, "parameters") else getattr(model, "__name__", "function")
    module = export.as_module(model)
    instance = instance or machine.chosen_instance() or machine.DEFAULT_INSTANCE
    with progress.stage(f"capturing {name}"), machine.asked_for(machine.instance(instance)["chip"]):
        if train:
            graph, sources = export.with_gradients(module, args, kwargs), {}  # what is trained is no weight: it changes
        else:
            made = export.exported(export.OnlyTensors(module), args, kwargs)
            graph, sources = made.graph, export.sources_of(made.graph_signature)
        export.refuse_others(graph, "trine.report", module, args, kwargs)
        text, _, weights = export.emitted(graph, sources, name)
    return _report_program(text.encode(), instance, auto_cast, range(len(weights)), name)


def _examples(args):
    """report(model, x, y) and report(model, (x, y)) are the same, as torch_neuronx.trace has it."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return tuple(args)


def report(kernel, *args, instance=None, dtype="float32", **kwargs) -> Report:
    """Times a kernel, a JAX function, jitted or not, or a PyTorch model, on one core of an instance.

    Arguments of a kernel are arrays, trine.nki.shape(…), (shape, dtype) pairs, bare shapes (of `dtype`, when all are) or
    plain values. Arguments of a JAX function are jax.Array or jax.ShapeDtypeStruct. Arguments of a model are example
    tensors, of which only shapes count; a model and inputs on device="meta" will do.

    `auto_cast` (models, JAX functions): none, matmult or all, to bf16. `train` (models): with the gradients.
    """
    if _is_jax(kernel, args, kwargs):
        return _report_jitted(kernel, args, kwargs, instance)
    if _is_torch(kernel, args, kwargs):
        chosen = {k: kwargs.pop(k) for k in ("auto_cast", "train") if k in kwargs}
        return _report_torch(kernel, args, kwargs, instance, **chosen)
    compiled, _, instance = compile_for(kernel, args, _with_dtype(kernel, dtype, kwargs), instance, dtype)
    timed = _core.time(compiled.program, instance)
    return Report(timed, compiled.program, instance, compiled.messages, files=compiled.files)

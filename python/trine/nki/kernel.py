"""@nki.jit: a Python function that is traced once per shape, dtype, target and plain argument, and then run.

A Kernel holds no data. `compiled()` gives the program; calling it runs the program's values on the exact executor.
"""

import functools
import inspect
import itertools
import os
import re
import sys
import traceback
import warnings

import numpy as np

from trine import _core
from trine.debug import names
from trine.nki import arrays, dtypes, isa, language, machine
from trine.nki.errors import NkiError
from trine.nki.tensor import PRIVATE_HBM, SHARED_HBM, NKIObject, NkiTensor, Storage, contiguous
from trine.nki.trace import Program, Tracer, error, is_ours, tracing

_FINDINGS = {
    "uninitialized_read": "NKI040", "out_of_bounds": "NKI041", "accumulate_uninitialized": "NKI042", "nan": "NKI043",
    "out_of_range_input": "NKI044", "bad_register": "NKI045", "race": "NKI046", "deadlock": "NKI047",
    "over_capacity": "NKI030", "collective_mismatch": "NKI026",
}  # fmt: skip
HEARD = []  # functions that are told of each kernel that runs by itself: trine.timed
torch_call = None  # trine.torch.kernels, once it is loaded: Dynamo must find it without a search
_NUMPY = os.path.dirname(np.__file__)
_OLD = os.path.join("nki", "old", "")


class Compiled:
    """A traced kernel: the program, how arguments map to its inputs and its outputs to results."""

    def __init__(self, program, inputs, results, written, prints, asserts, messages, files, recording=None):
        self.program = program
        self.inputs = inputs  # [(tensor name, DType)] in the order of the array arguments
        self.results = results  # tree of (output name, shape, DType), or None
        self.written = written  # {array index: output name}: arguments the kernel changed in place
        self.prints = prints  # [(prefix, output name, shape, DType)]
        self.asserts = asserts  # [(output name, where)]
        self.messages = messages
        self.files = files  # names of source files in the program -> paths
        self.recording = recording  # the kernel as text, for programs that call it; None unless asked for
        self._ready = {}

    def ready(self, chip):
        """The program made ready for a chip, once."""
        if chip not in self._ready:
            self._ready[chip] = self.program.ready(chip)
        return self._ready[chip]

    @functools.cached_property
    def outputs(self):
        """[(name, shape, DType)] in the order of the program's output tensors."""
        found = [t for t in self.program.tensors if t["kind"] == "output"]
        return [(t["name"], tuple(t["shape"]), dtypes.by_trine[t["dtype"]]) for t in found]

    @property
    def is_callable(self):
        """Can a program call it? One core runs it, and it says nothing beside its results."""
        return self.recording is not None and not self.prints and not self.asserts


class Kernel:
    """A function of NKI calls. Calling it runs its values; kernel[grid] launches it over a grid of programs."""

    def __init__(self, fn, target=None, simulate=False, schedule=(), grid=(), dialect=None, ranks=0):
        functools.update_wrapper(self, fn)
        self.fn, self.target, self.simulated, self.schedule = fn, target, simulate, tuple(schedule)
        self.grid, self.dialect = grid, dialect
        self.ranks = ranks  # of a launch over several logical cores; 0: one
        self._signature = inspect.signature(fn)
        self._cache = {}

    def _but(self, **changes):
        """A copy with something different; traced programs are shared with it where they fit."""
        state = {"fn": self.fn, "target": self.target, "simulate": self.simulated, "schedule": self.schedule,
                 "grid": self.grid, "dialect": self.dialect, "ranks": self.ranks}  # fmt: skip
        made = type(self)(**(state | changes))
        made._cache = self._cache
        return made

    def __eq__(self, other):  # by identity; said, since torch asks for it
        return self is other

    __hash__ = object.__hash__

    def __getitem__(self, grid):
        """The kernel launched over a grid: kernel[2](x) runs two programs, on two cores where the chip joins them."""
        grid = grid if isinstance(grid, tuple) else (grid,)
        return self._but(grid=grid)

    def with_schedule(self, edges):
        """The kernel with (later, earlier) pairs of named instructions that keep this order."""
        return self._but(schedule=[(c, (p,) if isinstance(p, str) else tuple(p)) for c, p in edges])

    def where(self):
        """(file, line) of the function."""
        code = self.fn.__code__
        return code.co_filename, code.co_firstlineno

    def __call__(self, *args, **kwargs):
        """Runs the kernel on arrays and gives its results as arrays of the same kind (NumPy, JAX, torch)."""
        if torch_call is not None and torch_call.is_compiling():
            return torch_call.inside_dynamo(self, args, kwargs)
        if tracing():
            return self.fn(*args, **kwargs)  # a kernel called from a kernel is inlined
        if is_torch_traced(args, kwargs):
            from trine.torch.kernels import call

            return call(self, args, kwargs)
        chip = self.chip()
        compiled, given = self.compiled(chip, args, kwargs)
        if any(map(arrays.is_jax_tracer, given)):
            from trine.nki.jax_call import call

            return call(self, args, kwargs, given, compiled)
        return run(compiled, chip, given)

    def chip(self):
        """The chip it is compiled for: its target, else what the environment and `trine use` say."""
        return machine.target_chip(self.target, self.where(), self.simulated)

    # --- tracing ---

    def compiled(self, chip, args, kwargs, recorded=False):
        """(Compiled, array arguments) for these arguments on a chip. `recorded`: also as text for programs that call it."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise error("NKI003", str(e), f"{self.__name__}{self._signature}") from None
        bound.apply_defaults()
        found = []
        tree = {name: _split(value, name, found) for name, value in bound.arguments.items()}
        described = [(name, *arrays.describe(x, name)) for name, x in found]
        key = _key((chip, self.grid, self.ranks, self.schedule, tree, [(s, d) for _, s, d in described], recorded))
        compiled = self._cache.get(key) if key is not None else None
        if compiled is None:
            compiled = self._trace(chip, bound, tree, described, recorded)
            if key is not None:
                self._cache[key] = compiled
        return compiled, [x for _, x in found]

    def _launch(self, chip):
        """(grid, cores): the programs and how many cores share them."""
        if machine.chip(chip)["generation"] < machine.FIRST_GENERATION:
            raise error("NKI004", f"{self.__name__} on {chip}", "NeuronCore-v2 or newer, which NKI is for",
                        "choose inf2, trn1 or newer: trine use")
        grid = tuple(_extent(n) for n in self.grid)
        if self.dialect is not None:
            grid = tuple(n or 1 for n in grid)  # kernel[0] of the functional dialect is one program
        cores = max([_cores(n) for n in self.grid], default=1)
        if self.dialect is None:
            if len(grid) > 1:
                raise error("NKI007", f"kernel{list(self.grid)}", "one number, the cores of a logical core")
            cores = grid[0] if grid else 1
        if self.ranks:
            return grid, self._ranks(chip)
        most = machine.chip(chip)["lnc_max"]
        if cores > most or any(n < 1 for n in grid):
            raise error("NKI007", f"kernel{list(self.grid)} on {chip}", "one core" if most == 1 else f"1 to {most} cores",
                        "LNC=2 needs trn2 or newer" if most == 1 else "")
        return grid, cores

    def _ranks(self, chip):
        most = machine.chip(chip)["cores"]  # a rank is a core of one chip
        if self.grid or not 1 <= self.ranks <= most:
            raise error("NKI007", f"{self.ranks} ranks, grid {list(self.grid)} on {chip}", f"1 to {most} ranks of one core each")
        return self.ranks

    def _trace(self, chip, bound, tree, described, recorded):
        grid, cores = self._launch(chip)
        tracer = Tracer(self.__name__, chip, grid, cores, self._rules())
        tracer.dialect = self.dialect and self.dialect(tracer)
        buffer = SHARED_HBM if cores > 1 else PRIVATE_HBM
        with tracer:
            inputs = []
            for name, shape, dtype in described:
                full = tracer.unique(name)
                id = tracer.tensor(full, "hbm", dtype, shape, "input", None, None, 0, self.where())
                inputs.append(Storage(id, buffer, dtype, shape, full, "input", 0, self.where()))
            result, results = None, []
            for program in self._programs(grid):
                tracer.program = program
                if self.ranks:
                    tracer.shared = []  # a rank shares its tensors with nobody
                mine = {name: _of_rank(part, program.core, self.ranks) for name, part in tree.items()}
                filled = {name: _fill(part, inputs, tracer.dialect) for name, part in mine.items()}
                result = self._call(_positional(bound, filled), _keywords(bound, filled))
                tracer.release()  # while this program's core is the current one
                results.append(result)
            if self.ranks:
                result = results
            self._apply_schedule(tracer)
            return self._finish(tracer, inputs, result, recorded)

    def _rules(self):
        """Whose its buffers and its order are; see Dialect in src/front/nki/trace.h."""
        return "current"

    def _call(self, args, kwargs):
        """Runs the kernel's Python. What a call of ours makes of wrong arguments is the user's error, at their line."""
        try:
            return self.fn(*args, **kwargs)
        except NkiError:
            raise
        except Exception as e:
            frames = traceback.extract_tb(e.__traceback__)[1:]  # ours, that called the kernel, is left out
            users = [i for i, f in enumerate(frames) if not is_ours(f.filename) and not f.filename.startswith(_NUMPY)]
            inside = frames[users[-1] + 1 :] if users else []
            call = re.match(r"(\w+)\(\) (got|missing|takes)", str(e))
            if not inside and not (call and self._documents(call[1])):
                raise
            last = frames[users[-1]]
            if self.dialect is None and inside and _OLD in inside[0].filename:
                raise error("NKI002", f"{inside[0].name} of neuronxcc.nki in a kernel of nki", "one dialect",
                            "import nki.language and nki.isa", where=(last.filename, last.lineno)) from None  # fmt: skip
            found = str(e) if not inside or call else f"{inside[0].name}: {type(e).__name__}: {e}"
            raise error("NKI003", found, "the arguments that NKI documents; see docs/nki.md",
                        where=(last.filename, last.lineno)) from e  # fmt: skip

    def _documents(self, name):
        return hasattr(isa, name) or hasattr(language, name)

    def _programs(self, grid):
        if self.ranks:
            return [Program(0, (), rank) for rank in range(self.ranks)]
        points = itertools.product(*(range(n) for n in grid))
        return [Program(index, ids, self._core(ids)) for index, ids in enumerate(points)]

    def _core(self, ids):
        """The core that runs one program of the grid."""
        if self.dialect is None:
            return ids[0] if ids else 0
        return sum(n.core(i) for n, i in zip(self.grid, ids) if hasattr(n, "core"))

    def _apply_schedule(self, tracer):
        for consumer, producers in self.schedule:
            for name in (consumer, *producers):
                if name not in tracer.instructions:
                    raise error("NKI027", f"instruction \"{name}\" in with_schedule", "a name= given to an nki.isa call",
                                where=self.where())
            tracer.trace.depends(tracer.instructions[consumer], [tracer.instructions[p] for p in producers])

    def _finish(self, tracer, inputs, result, recorded):
        if self.dialect is not None:
            result = tracer.dialect.results(result)
        returned = set()
        results = _map(result, lambda view: self._result(view, returned))
        prints = [(prefix, s.name, s.shape, s.dtype) for prefix, s in tracer.prints]
        written = {}
        for i, s in enumerate(inputs):
            if s.writes or s in returned:
                written[i] = output_name(s)
                tracer.tensor(written[i], "hbm", s.dtype, s.shape, "output", alias=s.id, where=self.where())
        program, recording = tracer.finish(recorded and tracer.cores == 1)
        asserts = [(s.name, where) for s, where in tracer.asserts]
        return Compiled(program, [(s.name, s.dtype) for s in inputs], results, written, prints, asserts,
                        list(tracer.trace.messages), tracer.files, recording)  # fmt: skip

    def _result(self, view, returned):
        storage = view.storage
        if storage.on_chip or (storage.buffer is not SHARED_HBM and storage.kind != "input" and self.dialect is None):
            raise error("NKI005", f"{view!r} returned", "a tensor in shared_hbm",
                        "allocate it with buffer=nl.shared_hbm and copy the result there", where=storage.where)
        whole = contiguous(storage)
        if view.offset or view.dynamic or not view.is_contiguous() or view.size != whole.size:
            raise error("NKI005", f"a part of {storage.name} returned", "the whole tensor", where=self.where())
        returned.add(storage)
        return output_name(storage), view.shape, view.dtype


def output_name(storage):
    """An input that is an output as well is two tensors on one storage."""
    return storage.name + ".out" if storage.kind == "input" else storage.name


def _extent(n):
    return int(getattr(n, "size", n))


def _cores(n):
    return int(getattr(n, "cores", 1))


def is_torch_traced(args, kwargs):
    """Is torch writing down a graph, or are these tensors that stand for others?"""
    if "torch" not in sys.modules:
        return False
    from trine.torch import traced

    return traced.is_traced([*args, *kwargs.values()])


class _Slot:
    """Where an array argument stands in the tree of arguments."""

    def __init__(self, index):
        self.index = index

    def __eq__(self, other):
        return isinstance(other, _Slot) and self.index == other.index

    def __hash__(self):
        return hash(("slot", self.index))


def _split(value, name, found):
    """The argument with every array taken out into `found`."""
    if arrays.is_array(value):
        found.append((name, value))
        return _Slot(len(found) - 1)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_split(v, f"{name}_{i}", found) for i, v in enumerate(value))
    if isinstance(value, dict):
        return {k: _split(v, f"{name}_{k}", found) for k, v in value.items()}
    return value


def _of_rank(value, rank, ranks):
    """A list of arrays, one per rank, stands for this rank's."""
    if ranks and type(value) is list and len(value) == ranks and all(isinstance(v, _Slot) for v in value):
        return value[rank]
    return value


def _fill(value, inputs, dialect):
    if isinstance(value, _Slot):
        view = contiguous(inputs[value.index])
        return view if dialect is None else dialect.wrap(view)
    if type(value) in (list, tuple):
        return type(value)(_fill(v, inputs, dialect) for v in value)
    if type(value) is dict:
        return {k: _fill(v, inputs, dialect) for k, v in value.items()}
    return value


def _key(value):
    """A hashable stand-in for the arguments, or None when one of them has no value to compare by."""
    try:
        key = _frozen(value)
        hash(key)
        return key
    except TypeError:
        return None


def _frozen(value):
    if type(value) in (list, tuple):
        return (type(value), tuple(_frozen(v) for v in value))
    if type(value) is dict:
        return (dict, tuple((k, _frozen(v)) for k, v in value.items()))
    if isinstance(value, NKIObject) and hasattr(value, "__dict__"):
        return (type(value), _frozen(vars(value)))
    return (type(value), value)


def _positional(bound, filled):
    kinds = bound.signature.parameters
    out = []
    for name in bound.arguments:
        kind = kinds[name].kind
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            out.append(filled[name])
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            out.extend(filled[name])
    return out


def _keywords(bound, filled):
    kinds = bound.signature.parameters
    out = {}
    for name in bound.arguments:
        if kinds[name].kind is inspect.Parameter.KEYWORD_ONLY:
            out[name] = filled[name]
        elif kinds[name].kind is inspect.Parameter.VAR_KEYWORD:
            out.update(filled[name])
    return out


def _map(result, f):
    if result is None:
        return None
    if isinstance(result, NkiTensor):
        return f(result)
    if type(result) in (list, tuple):
        return [_map(r, f) for r in result] if type(result) is list else tuple(_Tree(_map(r, f)) for r in result)
    raise error("NKI005", f"{result!r} returned", "tensors in shared_hbm, or tuples and lists of them")


class _Tree:
    """Marks a member of a returned tuple, so that it is not taken for the (name, shape, dtype) of a tensor."""

    def __init__(self, value):
        self.value = value


# --- running ---


def outputs_of(compiled, chip, given):
    """Every output tensor's values, as NumPy arrays; arguments stay as they are."""
    outcome = _outcome(compiled, chip, given)
    return [arrays.from_bytes(outcome.outputs[name], shape, dtype) for name, shape, dtype in compiled.outputs]


def _outcome(compiled, chip, given):
    inputs = {}
    for x, (name, dtype) in zip(given, compiled.inputs):
        data = arrays.to_numpy(x, dtype)
        if data is None:
            raise error("NKI006", f"argument {name} has a shape but no data", "an array",
                        "trine.report(kernel, …) takes shapes alone")
        inputs[name] = arrays.raw(data, dtype)
    outcome = compiled.ready(chip).run(inputs, weigh_unwritten=True)
    raise_finding(outcome, compiled.files)
    return outcome


def run(compiled, chip, given):
    """The kernel's results for these array arguments."""
    for hear in HEARD:
        hear(compiled)
    if _core.is_logging():
        _core.log_kernel(compiled.program, f"{chip} {id(compiled)}")
    outcome = _outcome(compiled, chip, given)
    for prefix, name, shape, dtype in compiled.prints:
        print(f"{names.prefix()}{prefix}", arrays.from_bytes(outcome.outputs[name], shape, dtype), flush=True)
    for name, where in compiled.asserts:
        wrong = int((outcome.outputs[name] == 0).sum())
        if wrong:
            raise NkiError("NKI048", f"{wrong} of {outcome.outputs[name].size} elements are zero", "none",
                           file=where[0], line=where[1])  # fmt: skip
    for i, name in compiled.written.items():
        _write_back(given[i], outcome.outputs[name])
    return map_results(compiled.results, lambda name, shape, dtype: arrays.like_inputs(
        arrays.from_bytes(outcome.outputs[name], shape, dtype), given))  # fmt: skip


def raise_finding(outcome, files):
    """The first thing the machine would have done wrong, as an NkiError. An output with holes is only warned of, and so is
    what no result depends on."""
    for f in outcome.findings:
        if not f.stream and f.kind == "uninitialized-read":
            warnings.warn(f"{f.operand}: {f.message}", stacklevel=3)
            continue
        if f.warning:
            code = _FINDINGS.get(f.kind.replace("-", "_"), "NKI049")
            where = f"{f.file}:{f.line}: " if f.file else ""
            warnings.warn(f"{where}{code} {f.found or f.message}; no result depends on it", stacklevel=3)
            continue
        raise NkiError(_FINDINGS.get(f.kind.replace("-", "_"), "NKI049"), f.found or f.message, f.expected, f.fix,
                       file=files.get(f.file, f.file), line=f.line)  # fmt: skip


def _write_back(x, values):
    if arrays.is_torch(x):
        x.copy_(arrays.like_inputs(values.reshape(x.shape), [x]))
    elif hasattr(x, "flags") and x.flags.writeable:
        x[...] = values.reshape(x.shape)


def map_results(tree, leaf):
    """The kernel's results as it returned them, each made by leaf(name, shape, dtype)."""
    if tree is None:
        return None
    if isinstance(tree, list):
        return [map_results(t, leaf) for t in tree]
    if isinstance(tree, tuple) and all(isinstance(t, _Tree) for t in tree):
        return tuple(map_results(t.value, leaf) for t in tree)
    return leaf(*tree)


# --- the decorator ---


def jit(fn=None, *, platform_target=None, **options):
    """Decorates a kernel. Options of older versions (mode, debug_kernel, …) are accepted and have no effect."""
    unknown = set(options) - {"mode", "debug_kernel", "show_compiler_tb", "experimental_flags", "schedule", "lnc"}
    if unknown:
        raise error("NKI003", f"nki.jit({', '.join(sorted(unknown))}=…)", "platform_target")
    if fn is None:
        return functools.partial(jit, platform_target=platform_target, **options)
    if isinstance(fn, Kernel):
        return fn
    return Kernel(fn, target=platform_target)


def simulate(kernel, ranks=0):
    """The kernel, run on the simulator; a plain function is wrapped first.

    With ranks, as many cores run it together, for nki.collectives: an argument that is a list of that many
    arrays gives one to each, and the result is the list of theirs.
    """
    if not isinstance(kernel, Kernel):
        kernel = Kernel(kernel)
    return kernel._but(simulate=True, ranks=ranks)


def shape(dims, dtype="float32"):
    """An array without data, for trine.report."""
    return arrays.ShapeDtype(dims, dtype)



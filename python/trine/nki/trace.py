"""The tracer: while a kernel's Python runs, every instruction it asks for is recorded here, in order.

One Tracer fills one `_core.Trace`, for all programs of the launch. It knows nothing of any instruction's meaning.
Invariant: `current()` is set exactly while a kernel is being traced.
"""

import difflib
import linecache
import os
import re
import sys

from trine import _core
from trine.nki import lacking, machine
from trine.nki.errors import MissingName, NkiError
from trine.nki.refusals import refusal

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # frames from here are never the user's
_internal_code = {}
_current = None

_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]*)?=[^=]")
_assigned_name = {}


def variable_at(where):
    """The variable that the source line assigns to, or None: a name for what the line makes."""
    if where not in _assigned_name:
        match = _ASSIGNED.match(linecache.getline(*where))
        _assigned_name[where] = match[1] if match else None
    return _assigned_name[where]


def in_assert() -> bool:
    """Is the user's line an assert statement?"""
    return linecache.getline(*user_frame()).lstrip().startswith("assert ")


def is_ours(file):
    return file.startswith(_OURS)


def user_frame():
    """(file, line) of the innermost frame that is not ours."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _internal_code.get(code)
        if ours is None:
            ours = _internal_code[code] = is_ours(code.co_filename)
        if not ours:
            return code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def error(code, found="", expected="", fix="", rule="", where=None) -> NkiError:
    file, line = where or user_frame()
    return NkiError(code, found, expected, fix, file=file, line=line, rule=rule)


def missing(module: str, name: str, known=()) -> Exception:
    """For a module's __getattr__: Python's own error for its own names, ours for the user's; `known` are those it has."""
    if name.startswith("__"):
        return AttributeError(name)
    file, line = user_frame()
    full = f"{module}.{name}"
    why = lacking.CURRENT.get(full) or lacking.OLD.get(full)
    fix = lacking.INSTEAD.get(full, "")
    if not why and not fix:
        fix = _nearest(module, name, known)
    return MissingName("NKI001", full, f"Trine lacks it: {why}" if why else "a name of NKI that docs/nki.md lists", fix,
                       file=file, line=line)  # fmt: skip


def _nearest(module, name, known):
    """The name that was most likely meant, and what to use where that one is of the other dialect."""
    ours = (n for n, v in known.items() if getattr(v, "__module__", None) == __name__) if isinstance(known, dict) else ()
    here = [n for n in set(known).difference(ours) if not n.startswith("_")]
    there = {full.rpartition(".")[2]: hint for full, hint in lacking.INSTEAD.items() if full.rpartition(".")[0] == module}
    near = difflib.get_close_matches(name, sorted([*here, *there]), 1, 0.6)
    if not near:
        return ""
    return f"nearest: {module}.{near[0]}" + (f", which is not here either: {there[near[0]]}" if near[0] in there else "")


def from_core(exc: Exception) -> NkiError:
    """The NkiError that a refusal by `_core.Trace` stands for."""
    return refusal(exc, user_frame(), _current.files if _current is not None else {})


def current():
    if _current is None:
        raise error("NKI002", "an NKI call while no kernel is being traced",
                    "calls inside a function decorated with @nki.jit", "call the kernel, and make this call in it")
    return _current


def tracing() -> bool:
    return _current is not None


class Program:
    """One instance of the launch grid while it is traced: its ids and the shared tensors it has met so far."""

    def __init__(self, index, ids, core):
        self.index, self.ids, self.core = index, ids, core
        self.shared = 0  # shared_hbm tensors created so far: the n-th of every program are one


class Tracer:
    def __init__(self, name: str, chip: str, grid=(), cores=1, rules="current"):
        self.name = name
        self.chip_name = chip
        self.chip = machine.chip(chip)
        self.features = frozenset(self.chip["features"])
        self.grid = grid
        self.cores = cores
        self.trace = _core.Trace(name, chip, cores, rules)
        self.program = Program(0, (), 0)
        self.shared = []  # storages in shared_hbm, in order of creation
        self.constants = {}  # (kind, …) -> storage made once per core
        self.names = {}  # base name -> how often it was used
        self.instructions = {}  # user's name -> instruction id
        self.tiles = {}  # view -> operand handle
        self.imms = {}
        self.registers = 0
        self.registers_free = []  # numbers whose registers the kernel has dropped
        self.offsets = []  # registers that take turns at the offsets of transfers
        self.loops = []  # device loops around the call in hand
        self.ordered = 0  # depth of no_reorder blocks
        self.dialect = None  # None: the current one
        self.held = None  # the functional dialect's last call, not yet recorded: its destination may still change
        self.prints = []  # device_print: (prefix, output name)
        self.asserts = []  # (storage, where): tiles that an assert wants to be true
        self.files = {}  # path -> the name it has in the program, and back

    # --- context ---

    def __enter__(self):
        global _current
        if _current is not None:
            raise error("NKI002", "a kernel launched while another is traced", "one at a time")
        _current = self
        return self

    def __exit__(self, *_):
        global _current
        _current = None

    # --- names and memory ---

    def short(self, path: str) -> str:
        """A source file's name in the program: its last part, or all of it where that is taken."""
        name = self.files.get(path)
        if name is None:
            name = path.rsplit(os.sep, 1)[-1]
            if name in self.files:
                name = path
            self.files[path], self.files[name] = name, path
        return name

    def unique(self, base: str) -> str:
        n = self.names.get(base, 0)
        self.names[base] = n + 1
        return base if n == 0 else self.unique(f"{base}_{n}")

    def tensor(self, name, space, dtype, shape, kind="scratch", address=None, data=None, core=0, where=("", 0),
               alias=-1) -> int:  # fmt: skip
        try:
            return self.trace.tensor(name, space, dtype.trine, tuple(shape), kind, address, data, core, alias,
                                     file=self.short(where[0]), line=where[1])  # fmt: skip
        except (ValueError, IndexError, MemoryError) as e:
            raise from_core(e) from None

    def register(self) -> int:
        self.registers += 1
        return self.registers - 1

    # --- operands and instructions ---

    def imm(self, value) -> int:
        handle = self.imms.get(value)
        if handle is None:
            handle = self.imms[value] = self.trace.imm(float(value))
        return handle

    def release(self):
        """Records the held call, if there is one."""
        if self.held is not None:
            held, self.held = self.held, None
            held.record()

    def emit(self, row, engine, operands, attrs, name=None, where=None):
        self.release()
        if where is None:
            where = user_frame()
        try:
            made = self.trace.emit(row, engine, operands, attrs, self.program.core, self.short(where[0]), where[1], (),
                                   self.ordered > 0)  # fmt: skip
        except (ValueError, IndexError, MemoryError) as e:
            raise from_core(e) from None
        if name is not None:
            self.instructions[name] = made
        return made

    def finish(self, recorded=False):
        """(program, the kernel as text where that is asked for)"""
        self.release()
        try:
            return self.trace.finish_recorded() if recorded else (self.trace.finish(), None)
        except (ValueError, IndexError, MemoryError) as e:
            raise from_core(e) from None

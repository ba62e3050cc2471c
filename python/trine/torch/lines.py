"""For profiles: which ATen op, and which line of the user's, each line of a program's text comes from.

Kept beside the record of runs (trine.profile), by the hash of the text, and only while runs are recorded: the text itself, and
with it every cache, stays the same.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import threading

from trine import _core

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_compiling = threading.local()  # place: the user's line that calls the graph


@functools.lru_cache(maxsize=None)
def _libraries():
    names = ("torch", "torch_xla", "torch_neuronx", "torch._dynamo")
    found = {os.path.dirname(sys.modules[m].__file__) + os.sep for m in names if getattr(sys.modules.get(m), "__file__", None)}
    return ("<", os.path.dirname(os.path.dirname(__file__)) + os.sep, *found), os.path.dirname(os.__file__) + os.sep


def is_wanted() -> bool:
    return _core.is_logging()


def _is_users(file):
    """A model of a library (transformers) has lines too; torch's own layers, Trine and Python's library are passed over."""
    libraries, python = _libraries()
    return not file.startswith(libraries) and (not file.startswith(python) or "-packages" in file)


def of_node(node, op):
    """The origin of an FX node: {op, file, line}. Where all its frames are torch's (layers in a Sequential), the line that calls the graph."""
    frames = [(f, int(n)) for f, n in _FRAME.findall(node.meta.get("stack_trace") or "") if _is_users(f)]
    return {"op": op} | ({"file": frames[-1][0], "line": frames[-1][1]} if frames else getattr(_compiling, "place", {}))


def caller():
    """{file, line} of the user's that is running right now; nothing where no runs are recorded."""
    return {k: v for k, v in of_call("").items() if k != "op"} if is_wanted() else {}


@contextlib.contextmanager
def called_from(place):
    """Graphs that are compiled inside are called from there."""
    before, _compiling.place = getattr(_compiling, "place", {}), place
    try:
        yield
    finally:
        _compiling.place = before


def of_call(op):
    """The origin of a call that Python makes right now; without a line where nobody of the user's is above (backward)."""
    frame = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return {"op": op} | ({"file": frame.f_code.co_filename, "line": frame.f_lineno} if frame is not None else {})


def save(text, lines, origins):
    """`lines` of the function's body begin on the text's third; `origins`: by the name that a line defines."""
    folder = os.environ.get("TRINE_PROFILE_RECORD")
    if not folder or not origins:
        return
    found, at = {}, 3
    for line in lines:
        name = line.split(" = ", 1)[0].split(":")[0]
        if name in origins:
            found[at] = origins[name]
        at += line.count("\n") + 1
    path = os.path.join(folder, hashlib.sha256(text.encode()).hexdigest() + ".lines")
    try:
        with open(f"{path}.{os.getpid()}", "w") as f:
            json.dump(found, f)
        os.replace(f.name, path)
    except OSError:
        pass  # the profile is without them


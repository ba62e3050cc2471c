"""Eager programs kept from one process to the next: what `eager.prepare` said, as JSON in the user's cache folder.

A file belongs to one torch and one state of the rows: its name is a hash of both. It holds StableHLO text and types, no
code; a file that cannot be read counts as absent.
"""

import atexit
import functools
import hashlib
import json
import os
import tempfile
from pathlib import Path

import torch

_answers = None  # key -> answer, those of the file included
_fresh = False


@functools.lru_cache(maxsize=None)
def state():
    """A hash of torch's version and of the rows: what is kept holds for these alone."""
    digest = hashlib.sha256(torch.__version__.encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def path():
    """Where this state of the rows keeps its programs."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trine" / f"torch-{state()}.json"


def call_text(name, overload, args, numbers, tensor):
    """A call as text, `tensor(t)` standing for each tensor and "number" for those that are inputs."""
    left = list(numbers)

    def one(a):
        if isinstance(a, torch.Tensor):
            return tensor(a)
        if isinstance(a, (list, tuple)):
            return ["list", *map(one, a)]
        if left and type(a) is float and a == left[0]:
            left.pop(0)
            return "number"
        return repr(a) if not isinstance(a, torch.device) else "device"

    return json.dumps([name, overload, [one(a) for a in args]])


def key(name, overload, args, numbers):
    """Everything that decides a program, as text."""
    seen = []

    def tensor(a):
        first = next((i for i, t in enumerate(seen) if t.data_ptr() == a.data_ptr()), len(seen))
        seen.append(a)
        return [str(a.dtype), list(a.shape), list(a.stride()), a.device.type == "cpu", first]

    return call_text(name, overload, args, numbers, tensor)


def load():
    """Reads the file, once."""
    global _answers
    if _answers is None:
        _answers = _read()
        atexit.register(save)


def find(k):
    """What was said for a key, or None."""
    load()
    answer = _answers.get(k)
    if answer is None:
        return None
    return {**answer, "params": [tuple(p) for p in answer["params"]], "returns": [tuple(r) for r in answer["returns"]],
            "outputs": [(d, getattr(torch, t), *rest) for d, t, *rest in answer["outputs"]]}


def keep(k, answer):
    global _fresh
    _fresh = True
    _answers[k] = {**answer, "outputs": [(d, str(t).removeprefix("torch."), *rest) for d, t, *rest in answer["outputs"]]}


def _read():
    try:
        found = json.loads(path().read_text())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def save():
    """Writes the file whole and then names it, so that a reader never sees half of it."""
    if not _fresh:
        return
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        merged = {**_read(), **_answers}
        with tempfile.NamedTemporaryFile("w", dir=path().parent, delete=False) as file:
            json.dump(merged, file)
        os.replace(file.name, path())
    except OSError:
        pass  # a cache that cannot be written is no reason to stop

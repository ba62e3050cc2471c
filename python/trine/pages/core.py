"""The page of a core dump: where every engine stood, what it waited for, semaphores, and memory around it.

`trine profile view core.<program>.<pid>.<n>.json` serves it on loopback, or writes it as one file. The dump is shown as it is;
the lines of source around an instruction are read from its file, where it is still there.
"""

import json
import linecache
import os
from pathlib import Path

from trine import _core
from trine.pages import shell
from trine.pages.server import Server, serve_until_interrupted

LARGEST = 64 << 20  # bytes
AROUND = 3  # lines of source, each way


def read(path) -> dict:
    """The dump, checked; ValueError says what is wrong with it."""
    size = os.stat(path).st_size
    if size > LARGEST:
        raise ValueError(f"{path}: found {size} bytes, expected a core dump of at most {LARGEST}")
    text = Path(path).read_text(errors="replace")
    try:
        _core.core_dump_text(text)  # says what it is not
        dump = json.loads(text)
    except (ValueError, RuntimeError, NotImplementedError) as e:
        raise ValueError(f"{path}: {e}") from None
    for engine in dump.get("engines", []):
        engine["source"] = _around(engine.get("where", ""))
    return dump


def _around(where):
    """[[number, text]] around a file and line; nothing where the file is gone."""
    file, _, line = where.rpartition(":")
    if not line.isdigit() or not os.path.isfile(file):
        return []
    lines, at = linecache.getlines(file), int(line)
    return [[n, lines[n - 1].rstrip("\n")] for n in range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)]


def title_of(dump):
    return f"{dump['program']}: {dump['status']} ({dump['code']})"


def server(dump, host="127.0.0.1", port=0, token=None):
    return Server({"/": shell.live(title_of(dump), "core")}, shell.files(), {"/api/core": lambda _: dump}, host, port, token)


def serve(path, port=0):
    """Until Ctrl-C; gives the exit code."""
    return serve_until_interrupted(server(read(path), port=port), False)


def write_html(path, out):
    """The page as one file that asks nothing of anybody."""
    dump = read(path)
    Path(out).write_text(shell.one_file(title_of(dump), "core", {"/api/core": dump}))

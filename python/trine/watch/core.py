"""`trine debug core FILE`: a core dump for people: where every engine stood, what it waited for, memory around it."""

import json
import pathlib

from trine import _core
from trine.command import OK, UNSUPPORTED, USAGE, Stop, note
from trine.pages.core import LARGEST


def run(asked):
    """Prints the dump; with --json as it is."""
    if len(asked.words) != 2:
        raise Stop(USAGE, "expected  core FILE")
    path = pathlib.Path(asked.words[1])
    if path.stat().st_size > LARGEST:
        raise Stop(UNSUPPORTED, f"{path}: found {path.stat().st_size} bytes, expected a core dump of at most {LARGEST}")
    text = path.read_text(errors="replace")
    try:
        shown = _core.core_dump_text(text)
    except (ValueError, RuntimeError, NotImplementedError) as e:
        raise Stop(UNSUPPORTED, f"{path}: {e}") from e
    if not asked.json:
        note(f"as a page: trine profile view {path}")
    print(json.dumps(json.loads(text) | {"report": "core"}, indent=2) if asked.json else shown, end="" if not asked.json else "\n")
    return OK

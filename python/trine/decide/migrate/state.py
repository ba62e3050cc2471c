"""What of a migration is done: one JSON file, replaced whole after each piece, so that a run that is killed goes on there.

Each piece has a key of all that it depends on; where that changed, it and those after it are done again.
"""

import hashlib
import json
import os
from pathlib import Path

from trine.command import OUTSIDE, Stop

VERSION = 1


def digest(*values):
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def files_digest(root, without, most=20_000):
    """Of names, sizes and times of a project's files: a changed file is ported again. Paths in `without` are not the project's."""
    own = {str(Path(p).resolve()) for p in without}
    rows = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__" and os.path.join(os.path.realpath(folder), f) not in own)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path) or os.path.realpath(path) in own:
                continue
            found = os.stat(path)
            rows.append((os.path.relpath(path, root), found.st_size, found.st_mtime_ns))
            if len(rows) >= most:
                return digest(rows)
    return digest(rows)


class State:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.path = self.folder / "state.json"
        self.pieces, self.trouble = {}, ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            held = json.loads(self.path.read_text()) if self.path.exists() else {}
            if held and not isinstance(held, dict):
                raise ValueError("no object")
            if held and held.get("version") == VERSION and isinstance(held.get("pieces"), dict):
                self.pieces = held["pieces"]
            elif held:
                self.trouble = f"{self.path} is of another version: all steps are done again"
        except ValueError:
            self.trouble = f"{self.path} cannot be read: all steps are done again"
        except OSError as e:
            raise Stop(OUTSIDE, f"{folder}: {e.strerror}") from None

    def get(self, name, key):
        held = self.pieces.get(name)
        return held["value"] if isinstance(held, dict) and held.get("key") == key and "value" in held else None

    def put(self, name, key, value, seconds):
        self.pieces[name] = {"key": key, "seconds": round(seconds, 2), "value": value}
        beside = self.path.with_suffix(".new")
        with open(beside, "w", encoding="utf-8") as f:
            json.dump({"version": VERSION, "pieces": self.pieces}, f, indent=1)
            f.flush()
            os.fsync(f.fileno())
        os.replace(beside, self.path)

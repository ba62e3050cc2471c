"""PROJECT.toml: what is moved, under what load, beside which GPU, and what is tried. Nothing is run here."""

import dataclasses
import tomllib
from pathlib import Path

from trine.command import OUTSIDE, USAGE, Stop

INSTANCES = ("inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge")
PRECISIONS = {"f32": "none", "bf16": "matmult"}  # to what auto_cast each is
# table: key: (kinds, default, what it is); the page of the format is made of it.
TABLES = {
    "project": {
        "path": (str, ".", "folder of the project, from where this file lies"),
        "model": (str, None, "MODULE:FACTORY that gives the torch.nn.Module"),
        "inputs": (str, None, "of one call, sizes joined by x: 8x3x32x32 or 8x128:int64; the first size is the batch"),
        "train": (bool, False, "a training step rather than an inference"),
        "script": (str, "", "a script of the project that is run after the port, on the virtual device"),
        "arguments": (list, [], "of that script"),
    },
    "traffic": {
        "items_per_day": ((int, float), None, "inferences, or samples of training"),
        "p99_ms": ((int, float), 0, "no slower than this, 0: whatever it takes"),
        "months": ((int, float), 12, "how long the cost is counted"),
    },
    "baseline": {
        "file": (str, "", "what the file of `trine baseline` measured on your GPU"),
        "row": (str, "", "the row of that file, or of the measured H200 rows that come with Trine"),
        "machine": (str, "", "the machine it is priced as, of `trine tco`: the smallest with the GPU that was measured; one H100 where none was"),
    },
    "try": {
        "instances": (list, list(INSTANCES), "of Neuron's, as `trine prices` names them"),
        "batches": (list, [], "a quarter of the inputs' own, that, and four times it, where none are given"),
        "precisions": (list, list(PRECISIONS), "f32, bf16 (multiplies)"),
    },
}


@dataclasses.dataclass
class Project:
    file: Path
    project: dict
    traffic: dict
    baseline: dict
    trial: dict  # the table [try]

    @property
    def root(self):
        return (self.file.parent / self.project["path"]).resolve()

    @property
    def unit(self):
        return "samples" if self.project["train"] else "inferences"

    @property
    def batch(self):
        return int(self.project["inputs"].split(",")[0].rpartition("=")[2].partition(":")[0].split("x")[0])

    def inputs_of(self, batch):
        """The inputs with another batch: the first size of each that has the batch's."""
        out = []
        for part in self.project["inputs"].split(","):
            name, equals, rest = part.rpartition("=")
            shape, colon, dtype = rest.partition(":")
            first, x, others = shape.partition("x")
            first = str(batch) if first == str(self.batch) else first
            out.append(f"{name}{equals}{first}{x}{others}{colon}{dtype}")
        return ",".join(out)


def fail(path, found, expected):
    raise Stop(USAGE, f"{path}: found {found}, expected {expected}")


def table_of(path, name, given):
    rows, out = TABLES[name], {}
    if not isinstance(given, dict):
        fail(path, f"{name} = {given!r}", f"a table [{name}]")
    for key in given:
        if key not in rows:
            fail(path, f"{key} in [{name}]", f"one of {', '.join(rows)}")
    for key, (kind, default, what) in rows.items():
        value = given.get(key, default)
        if value is None:
            fail(path, f"no {key} in [{name}]", what)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            fail(path, f"{key} = {value!r} in [{name}]", what)
        out[key] = value
    return out


def read(path) -> Project:
    path = Path(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise Stop(OUTSIDE, f"{path}: {getattr(e, 'strerror', None) or e}") from None
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        fail(path, f"no TOML ({e})", "the tables of docs/migrate.md")
    for name in given:
        if name not in TABLES:
            fail(path, f"[{name}]", f"one of {', '.join(f'[{t}]' for t in TABLES)}")
    tables = {name: table_of(path, name, given.get(name, {})) for name in TABLES}
    out = Project(path.resolve(), tables["project"], tables["traffic"], tables["baseline"], tables["try"])
    if not out.root.is_dir():
        fail(path, f"path = {out.project['path']!r}", "the folder of a project")
    try:
        least = min([out.batch, *out.trial["batches"]])
    except (ValueError, TypeError):
        fail(path, f"inputs = {out.project['inputs']!r}, batches = {out.trial['batches']!r}", "whole numbers such as 8x3x32x32")
    if least < 1 or not all(isinstance(b, int) for b in out.trial["batches"]):
        fail(path, f"a batch of {least}", "1 or more")
    for precision in out.trial["precisions"]:
        if precision not in PRECISIONS:
            fail(path, f"precision {precision!r}", f"of {', '.join(PRECISIONS)}")
    if out.traffic["items_per_day"] <= 0 or not 0.1 <= out.traffic["months"] <= 120 or out.traffic["p99_ms"] < 0:
        fail(path, f"traffic {out.traffic}", "items_per_day above 0, months from 0.1 to 120, p99_ms of 0 or more")
    if not out.trial["batches"]:
        out.trial["batches"] = sorted({max(1, out.batch // 4), out.batch, 4 * out.batch})
    return out

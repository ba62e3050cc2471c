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
        "model": (str, "", "MODULE:FACTORY that gives the torch.nn.Module"),
        "inputs": (str, "", "of one call, sizes joined by x: 8x3x32x32 or 8x128:int64; the first size is the batch"),
        "config": (str, "", "in their stead, of a decoder: a config.json from where this file lies, or a name such as llama-3-8b"),
        "train": (bool, False, "a training step rather than an inference"),
        "script": (str, "", "a script of the project that is run after the port, on the virtual device"),
        "arguments": (list, [], "of that script"),
    },
    "traffic": {
        "items_per_day": ((int, float), None, "inferences, samples of training, or tokens that a decoder writes"),
        "p99_ms": ((int, float), 0, "no slower than this, of a decoder each token; 0: whatever it takes"),
        "first_token_ms": ((int, float), 0, "config: no later than this; 0: whatever it takes"),
        "prompt": (int, 896, "config: tokens of a request's prompt"),
        "output": (int, 128, "config: tokens of its answer"),
        "months": ((int, float), 12, "how long the cost is counted"),
    },
    "baseline": {
        "file": (str, "", "what the file of `trine baseline` measured on your GPU"),
        "row": (str, "", "the row of that file, or of the measured H200 rows that come with Trine"),
        "machine": (str, "", "the machine it is priced as, of `trine tco`: the smallest with the GPU that was measured; one H100 where none was"),
    },
    "try": {
        "instances": (list, list(INSTANCES), "of Neuron's, as `trine prices` names them"),
        "batches": (list, [], "a quarter of the inputs' own, that, and four times it, where none are given; config: 8 and 32"),
        "precisions": (list, [], "f32, bf16 (multiplies), both where none are given; config: bf16"),
        "contexts": (list, [], "config: tokens that the window of a request holds; a request's own and four times it where none are given"),
        "tp": (list, [], "config: cores that share a copy; the fewest that hold it, twice and four times as many where none are given"),
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
    def is_decoder(self):
        """Known by its configuration: times are those of `trine estimate`, a copy may share several cores."""
        return bool(self.project["config"])

    @property
    def config(self):
        """As `trine estimate` takes it: a file beside this one, or a name."""
        beside = self.file.parent / self.project["config"]
        return str(beside) if beside.exists() else self.project["config"]

    @property
    def request(self):
        """Tokens of a request, prompt and answer."""
        return self.traffic["prompt"] + self.traffic["output"]

    @property
    def unit(self):
        return "tokens" if self.is_decoder else "samples" if self.project["train"] else "inferences"

    @property
    def batch(self):
        if self.is_decoder:
            return max(self.trial["batches"])
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
    except OSError as e:
        raise Stop(OUTSIDE, f"{path}: {e.strerror}") from None
    except UnicodeDecodeError as e:
        fail(path, f"a byte that no UTF-8 has at {e.start}", "a TOML file with the tables of docs/migrate.md")
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
    check_model(path, out)
    for name, least in (("batches", 1), ("contexts", 2), ("tp", 1)):
        if not all(isinstance(b, int) and not isinstance(b, bool) for b in out.trial[name]):
            fail(path, f"inputs = {out.project['inputs']!r}, {name} = {out.trial[name]!r}", "whole numbers such as 8x3x32x32")
        if min(out.trial[name], default=least) < least:
            fail(path, f"{name} = {out.trial[name]!r}", f"{least} or more")
    for precision in out.trial["precisions"]:
        if precision not in PRECISIONS:
            fail(path, f"precision {precision!r}", f"of {', '.join(PRECISIONS)}")
    if not out.trial["instances"] or not all(isinstance(i, str) for i in out.trial["instances"]):
        fail(path, f"instances = {out.trial['instances']!r}", "names such as trn1.2xlarge")
    if out.traffic["items_per_day"] <= 0 or not 0.1 <= out.traffic["months"] <= 120 or min(out.traffic[k] for k in ("p99_ms", "first_token_ms")) < 0:
        fail(path, f"traffic {out.traffic}", "items_per_day above 0, months from 0.1 to 120, p99_ms of 0 or more")
    fill_in(out)
    return out


def check_model(path, out):
    """Either a factory with its inputs, or a decoder's configuration."""
    if out.is_decoder:
        for key in ("model", "inputs", "train"):
            if out.project[key]:
                fail(path, f"{key} and config in [project]", "one of them: a configuration stands for the model; `trine tco --train` prices its training")
        if min(out.traffic["prompt"], out.traffic["output"]) < 1:
            fail(path, f"traffic {out.traffic}", "prompt and output of 1 token or more")
        if out.baseline["row"]:
            fail(path, "row in [baseline]", "file and machine alone: with config the rows of that model, batch and context are taken")
        return
    for key in ("model", "inputs"):
        if not out.project[key]:
            fail(path, f"no {key} in [project]", TABLES["project"][key][2])
    for table, key in (("traffic", "first_token_ms"), ("try", "contexts"), ("try", "tp")):
        if getattr(out, {"try": "trial"}.get(table, table))[key]:
            fail(path, f"{key} in [{table}]", "config in [project], to which it belongs: a copy of any other model has one core")
    try:
        least = out.batch
    except ValueError:
        fail(path, f"inputs = {out.project['inputs']!r}", "whole numbers such as 8x3x32x32")
    if least < 1:
        fail(path, f"a batch of {least}", "1 or more")


def fill_in(out):
    """What is tried where the file does not say."""
    trial = out.trial
    if out.is_decoder:
        trial["batches"] = trial["batches"] or [8, 32]
        trial["precisions"] = trial["precisions"] or ["bf16"]
        trial["contexts"] = trial["contexts"] or [out.request, 4 * out.request]
        return
    trial["precisions"] = trial["precisions"] or list(PRECISIONS)
    trial["batches"] = trial["batches"] or sorted({max(1, out.batch // 4), out.batch, 4 * out.batch})

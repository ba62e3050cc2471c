"""The programs of the corpus, by group. Each gives its forms: name of the form -> (text, summary); see listings.py.

What frameworks made lies in inputs/ (make_inputs.py writes it), so that another JAX or torch moves nothing here; kernels
of NKI are traced by our own code, and torch's graphs go through our own rows, each time.
"""

import dataclasses
import functools
import io
import json
import tarfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
CHIPS = ("trn1", "trn2", "trn3")


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    name: str
    make: object  # () -> {form: (text, summary)}
    cost: float = 1.0  # roughly: dear ones begin first

    @property
    def key(self):
        return f"{self.group}/{self.name}"


def forms(artifact, chips, **options):
    from replay.listings import form_of

    return {form: form_of(artifact, form, options) for form in ("graph", "plan", *chips)}


@functools.cache
def stored(name):
    """{member: bytes} of an archive of inputs."""
    path = FOLDER / "inputs" / f"{name}.tar.xz"
    if not path.exists():
        return {}
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:xz") as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def ops():
    """A graph of one op, for every op: inputs/ops.graphs."""
    path = FOLDER / "inputs/ops.graphs"
    for part in path.read_text().split("# ")[1:]:
        title, text = part.split("\n", 1)
        yield Case("ops", title.strip(), functools.partial(forms, text.strip().encode(), CHIPS))


def stablehlo():
    """Programs that the reader's own tests keep: portable artifacts, bytecode, text."""
    for path in sorted((ROOT / "tests/front/stablehlo/data").iterdir()):
        if path.suffix in (".artifact", ".bytecode", ".mlir"):
            yield Case("stablehlo", path.name, functools.partial(_file, path))


def _file(path):
    return forms(path.read_bytes(), ("trn2",), jax=True)


def archived(group, forms_of):
    """Programs of an archive; index.json says what the compiler is told of each."""
    files = stored(group)
    for name, about in json.loads(files.get("index.json", b"{}")).items():
        yield Case(group, name, functools.partial(forms_of, group, name, about), about.get("cost", 1.0))


def _read(group, name, about):
    options = {k: v for k, v in about.items() if k not in ("chips", "cost")}
    return forms(stored(group)[name], about["chips"], **options)


def _torch(group, name, about):
    """What our rows make of torch's graph, and the forms of each program that they made."""
    from replay.listings import joined, said
    from replay.torch_graphs import programs_of

    try:
        text, programs = programs_of(json.loads(stored(group)[name]), "graph")
    except ValueError as e:
        text, programs = said(e), []
    return {"rows": (text, f"{len(programs)} programs")} | joined([forms(p, about["chips"]) for p in programs])


def _onnx(group, name, about):
    """The graph that the reader makes, and what is compiled from it."""
    from replay.listings import said, summary
    from trine import _core

    try:
        text = _core.read_onnx(stored(group)[name])
    except ValueError as e:
        return {"graph": (said(e), summary("graph", said(e)))}
    return forms(text.encode(), about["chips"])


def nki():
    from replay import kernels

    for name, make in kernels.cases():
        yield Case("nki", name, make, 3.0)


GROUPS = {
    "ops": ops,
    "stablehlo": stablehlo,
    "jax": functools.partial(archived, "jax", _read),
    "mesh": functools.partial(archived, "mesh", _read),
    "zoo": functools.partial(archived, "zoo", _read),
    "onnx": functools.partial(archived, "onnx", _onnx),
    "torch": functools.partial(archived, "torch", _torch),
    "nki": nki,
}


def cases():
    """All of them, dear ones first."""
    return sorted((c for group in GROUPS.values() for c in group()), key=lambda c: -c.cost)

"""What tracing gave, kept in the compile cache: a second estimate of a model imports neither JAX nor the model's functions.

A program is its StableHLO text and what is known of its arguments; a model's numbers are what the shapes of its parameters
say. The key holds all that decides them: the model, what is asked of it, the sources that are traced, and versions and
settings of what traces them. What is found is read as a stranger's file: what does not fit is made anew.
"""

import dataclasses
import functools
import gc
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

from trine import _core
from trine.estimate.lowering import Traced, bytes_of

VERSION = 1  # of the entries' form
TRACED = ("models", "estimate", "jax")  # folders of the package whose sources decide what a trace gives
TRACING = ("jax", "jaxlib", "numpy", "ml_dtypes")
HEAD_LIMIT = 1 << 16  # bytes
LEAVES_LIMIT = 1 << 20  # inputs of a program
NUMBER_LIMIT = 1 << 62
IMPORTED = []  # called once JAX was imported here
_imported_with = {}  # JAX's settings, where it was imported here


# ---- what decides


@functools.cache
def sources(root=Path(__file__).parents[1]):
    """The hash of all that is traced and of where it lies, which the program's lines name."""
    digest = hashlib.sha256(str(root).encode())
    for path in sorted(path for folder in TRACED for path in (root / folder).glob("*.py")):
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@functools.cache
def versions():
    """Of what traces, known without importing it: a hash of the files that say them; None where one is not to be found."""
    digest = hashlib.sha256(sys.version.encode())
    for name in TRACING:
        spec = importlib.util.find_spec(name)
        if not spec or not spec.origin:
            return None
        file = Path(spec.origin).with_name("version.py")
        digest.update((file if file.exists() else Path(spec.origin)).read_bytes())
    return digest.hexdigest()


def settings():
    """JAX's: its variables, and where it is imported all that was set otherwise since; everything where others imported it."""
    given = sorted((name, value) for name, value in os.environ.items() if name.startswith("JAX_"))
    return given + [item for item in settings_here() if _imported_with.get(item[0]) != item[1]]


def settings_here():
    config = getattr(sys.modules.get("jax"), "config", None)
    return sorted((name, repr(value)) for name, value in config.values.items()) if config else []


def plain(value):
    """As JSON has it, with the names of what has fields; TypeError for what is not told by its values."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if dataclasses.is_dataclass(value):
        return [type(value).__name__, {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}]
    if isinstance(value, dict):
        return sorted(([plain(k), plain(v)] for k, v in value.items()), key=lambda pair: str(pair[0]))
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return [str(value.dtype), value.tolist()]
    raise TypeError(f"{type(value).__name__} is no part of a key")


def deciding(model):
    """Of a model, but for the name that a user gave it."""
    config = {name: value for name, value in model.config.items() if name != "_name_or_path"}
    return model.once("deciding", lambda: plain([config, model.family.name, model.settings, model.dtype_name, model.storage]))


def key_of(what, model, asked):
    """(text, state) as the cache takes them; None where nothing is to be kept, or what decides is not known whole."""
    if _core.cache_off() or versions() is None:
        return None
    try:
        text = json.dumps([what, deciding(model) if model else None, plain(asked), settings()])
    except TypeError:
        return None
    return text, f"traced {VERSION} {sources()} {versions()}"


# ---- what is kept


def program(model, about, asked, make):
    """The Traced of what is asked of a model (None: of no model), or what `make()` gives, which is kept."""
    return _found(key_of("program", model, asked), f"traced {about}", read_program, make, write_program)


def numbers(model, name, asked, count, make):
    """`count` whole numbers that are known of a model, from zero on: `make()` gives them."""
    def found():
        key = key_of(name, model, asked)
        read = functools.partial(read_numbers, count=count)
        return _found(key, f"{name} of {model.family.name}", read, lambda: [int(n) for n in make()], write_numbers)

    return model.once((name, *asked), found)


def _found(key, about, read, make, write):
    if key and (stored := _core.cache_get(*key)) is not None and (found := read(stored)) is not None:
        return found
    import_jax()
    made = make()
    if key:
        _core.cache_put(*key, about, write(made))
    return made


def import_jax():
    """Nothing of it is garbage, so that Python looks for none meanwhile."""
    if "jax" in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        import trine.models.training  # noqa: F401

        _imported_with.update(settings_here())
        for tell in IMPORTED:  # before Python looks through all of it for the first time
            tell()
    finally:
        if collects:
            gc.enable()


def write_program(traced):
    head = {"ranges": {name: [at.start, at.stop] for name, at in traced.ranges.items()},
            "given": [[at.start, at.stop] for at in traced.given], "host_bytes": traced.host_bytes}  # fmt: skip
    return json.dumps(head).encode() + b"\n" + traced.artifact


def read_program(stored):
    """The Traced; None where it is none."""
    head, _, artifact = stored.partition(b"\n")
    known = _json(head)
    if not isinstance(known, dict) or sorted(known) != ["given", "host_bytes", "ranges"] or not artifact:
        return None
    ranges, given = known["ranges"], known["given"]
    if not isinstance(ranges, dict) or not isinstance(given, list) or set(ranges) - {"weights", "cache", "optimiser"}:
        return None
    if not all(_are_leaves(at) for at in [*ranges.values(), *given]) or not _is_number(known["host_bytes"]):
        return None
    return Traced(artifact, {name: range(*at) for name, at in ranges.items()}, [range(*at) for at in given], known["host_bytes"])


def write_numbers(made):
    return json.dumps(made).encode()


def read_numbers(stored, count):
    known = _json(stored)
    return known if isinstance(known, list) and len(known) == count and all(_is_number(n) for n in known) else None


def _json(text):
    try:
        return json.loads(text) if len(text) <= HEAD_LIMIT else None
    except (ValueError, RecursionError):
        return None


def _is_number(value, limit=NUMBER_LIMIT):
    return type(value) is int and 0 <= value <= limit


def _are_leaves(at):
    return isinstance(at, list) and len(at) == 2 and all(_is_number(n, LEAVES_LIMIT) for n in at) and at[0] <= at[1]


# ---- numbers of models


def build(config, dtype):
    """The model of a configuration that fits together, which is known of those that were built before."""
    from trine.models.model import Model

    model = Model(config, dtype, checked=True)
    writes(model)
    return model


def writes(model):
    """Whether it writes text, token after token."""
    return bool(numbers(model, "writes", [], 1, lambda: model.check() and [int(model.writes)])[0])


def parameters_count(model):
    return numbers(model, "parameters", [], 1, lambda: [model.parameters_count()])[0]


def parameters_size(model, tp):
    """(bytes, numbers) of one core of `tp`."""
    return tuple(numbers(model, "sizes", [tp], 2, lambda: model.parameters_size(tp)))


def cache_bytes(model, batch, length, tp):
    return numbers(model, "cache", [batch, length, tp], 1, lambda: [bytes_of(model.cache_shapes(batch, length, tp))])[0]


def optimiser_bytes(model, tp):
    """Of AdamW's state as the models' own step has it."""
    def made():
        import jax

        from trine.models.training import adamw_init

        return [bytes_of(jax.eval_shape(adamw_init, model.parameters_shapes(tp)))]

    return numbers(model, "optimiser", [tp], 1, made)[0]


def image_tokens(model):
    def made():
        from trine.models.seeing import image_tokens

        return [int(image_tokens(model.settings))]

    return numbers(model, "image tokens", [], 1, made)[0]

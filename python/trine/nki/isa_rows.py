"""nki.isa calls that are an instruction's operands and attributes as they stand, in both dialects.

A row of src/arch/insns says the order of the parameters (`.nki`); names, defaults, engines and what the chip must have are
the row's own. So such a call is written nowhere: its text is made here. What a call makes of its arguments beyond that
is a function of isa_compute.py, isa_move.py or old/isa.py.
"""

from trine.nki import isa_enums, machine, ops, psum  # noqa: F401 - what the made text names
from trine.nki.emit import emit, engine_name, member, needs  # noqa: F401
from trine.nki.tensor import NkiTensor  # noqa: F401

_READ = {"int": "int({0})", "float": "float({0})", "bool": "bool({0})", "ints": "[int(v) for v in {0}]"}
_OPERATORS = {"alu": "ops.alu({0}, {0!r})", "act": "ops.act({0}, {0!r})"}


def _read(attr):
    """How an argument becomes the attribute's value."""
    name = attr["name"]
    if attr["type"] != "enum":
        return _READ[attr["type"]].format(name)
    return _OPERATORS.get(attr["set"], f"member({{0}}, isa_enums.{attr['set']}, {{0!r}})").format(name)


def _parameters(row, words):
    """Python's text of the parameters, and which of them are operands and attributes."""
    operands, attrs = ({x["name"]: x for x in row[kind]} for kind in ("operands", "attrs"))
    shown, slots, given = [], [], []
    for word in words:
        name, _, default = word.partition("=")
        if name in operands:
            slots.append(name)
            shown.append(f"{name}=None" if operands[name]["optional"] else name)
        elif name in attrs:
            given.append(attrs[name])
            shown.append(name if attrs[name]["required"] else f"{name}={attrs[name]['initial']!r}")
        elif name == "engine":
            shown.append(f"engine=isa_enums.engine.{default or 'unknown'}")
        else:
            shown.append(name)  # * of Python
    return shown, slots, given


def _current(row):
    """`name(dst, …, name=None)`, which returns the recorded instruction."""
    name, engines = row["name"], tuple(row["engines"])
    shown, slots, given = _parameters(row, row["nki"]["takes"].split())
    yield f"def {name}({', '.join(shown + ['name=None'])}):"
    yield f"    {row['says']!r}"
    if row["needs"] != "base":
        yield f"    needs({row['needs']!r}, {name!r})"
    if any(o["name"] == "dst" and "psum" in o["kinds"] for o in row["operands"]):
        yield "    if isinstance(dst, NkiTensor) and dst.storage.space == 'psum':"
        yield "        psum.note_write(dst)"
    operands = ", ".join(f"{s!r}: {s}" for s in slots)
    attrs = ", ".join(f"{a['name']!r}: {_read(a)}" for a in given)
    engine = repr(engines[0]) if len(engines) == 1 else f"engine_name(engine, {engines!r}, {name!r})"
    yield f"    return emit({name!r}, {{{operands}}}, {{{attrs}}}, {engine}, name)"


def _old(row):
    """`name(…, dtype=None, mask=None)`, which returns a new tile."""
    like, *size = row["nki"]["returns"].split()
    words = row["nki"]["old"].split()
    shown, slots, given = _parameters(row, words if "*" in words else [*words, "*"])
    shape = f"({like}.shape[0], {size[0]})" if size else f"{like}.shape"
    dtype = f"dtypes.by_trine[{size[1]!r}]" if size[1:] else f"{like}.dtype"
    handed = ", ".join(f"{n}={n}" for n in slots + [a["name"] for a in given])
    yield f"def {row['name']}({', '.join(shown)}, dtype=None, mask=None, **_):"
    yield f"    {row['says']!r}"
    yield f"    {like} = need({like}, {like!r})"
    yield f"    return run(isa_rows.{row['name']}, new({shape}, dtype, {dtype}), mask, {like}.shape, {handed})"


def define(dialect, namespace):
    """Puts the calls of a dialect, "takes" or "old", into a module's globals; returns their names."""
    rows = [row for row in machine.rows().values() if row["nki"][dialect]]
    text = "\n".join(line for row in rows for line in (_current if dialect == "takes" else _old)(row))
    exec(compile(text, __file__, "exec"), namespace)  # noqa: S102 - our own rows
    return [row["name"] for row in rows]


CALLS = define("takes", globals())

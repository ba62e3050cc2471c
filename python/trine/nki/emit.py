"""From an nki.isa call to one recorded instruction: operands to handles, enums to names, the instruction's handle back."""

from trine.nki import isa_enums
from trine.nki.tensor import NKIObject, NkiTensor, is_register
from trine.nki.trace import current, error

_ENGINES = {e: (None if e.name in ("unknown", "dma") else e.name) for e in isa_enums.engine}
_NO_ATTRS = {}


class NkiInstruction(NKIObject):
    """A recorded instruction; `depends_on` adds scheduling edges to it."""

    __slots__ = ("handle", "loops")

    def __init__(self, handle, loops=()):
        self.handle, self.loops = handle, loops

    def depends_on(self, *producers):
        tracer = current()
        for p in producers:
            if not isinstance(p, NkiInstruction):
                raise error("NKI027", f"{p!r} as a producer", "what an nki.isa call returned")
            if tuple(p.loops) != tuple(self.loops)[: len(p.loops)]:
                raise error("NKI027", "a dependency into or out of a device loop", "both in the same loop")
        tracer.trace.depends(self.handle, [p.handle for p in producers])
        return self


def engine_name(engine, allowed=None, what=""):
    """The engine's name, or None to leave the choice to the scheduler."""
    if engine is None:
        return None
    found = _ENGINES.get(engine, "")
    if found == "":
        raise error("NKI003", f"engine={engine!r}", "a member of nisa.engine")
    if allowed is not None and found is not None and found not in allowed:
        raise error("NKI022", f"{what} on engine.{found}", " or ".join(f"engine.{e}" for e in allowed))
    return found


def operand(tracer, value, slot):
    if type(value) is NkiTensor:
        return value._handle if value._handle is not None else value.tile()
    if isinstance(value, NkiTensor):
        return value.tile()
    if is_register(value):
        return value.operand(tracer)
    try:
        return tracer.imm(float(value))
    except (TypeError, ValueError):
        raise error("NKI003", f"{slot}={value!r}", "a tensor or a number") from None


def emit(row, operands, attrs=_NO_ATTRS, engine=None, name=None):
    """Records one instruction. Operands that are None are left out; engine is a name or None."""
    tracer = current()
    dst = operands.get("dst")
    if dst is not None:
        dst.storage.writes += 1
    if tracer.dialect is not None:
        return tracer.dialect.emit(row, operands, attrs, engine, name)
    handles = {slot: operand(tracer, v, slot) for slot, v in operands.items() if v is not None}
    return NkiInstruction(tracer.emit(row, engine, handles, attrs, name), tracer.loops[:] if tracer.loops else ())


def tensor(value, slot):
    """value, which must be an NkiTensor."""
    if not isinstance(value, NkiTensor):
        raise error("NKI003", f"{slot}={value!r}", "a tensor")
    return value


def needs(feature, what):
    tracer = current()
    if feature not in tracer.features:
        raise error("NKI004", f"{what} on {tracer.chip_name}", f"a chip with `{feature}`",
                    "choose another: NEURON_PLATFORM_TARGET_OVERRIDE=trn3, TRINE_INSTANCE or instance=")


def member(value, kind, slot):
    """The name of an enum's member; integers and names as NKI numbers and spells them are accepted too."""
    if isinstance(value, kind):
        return value.name
    for m in kind:
        if value == m.value or value == m.name:
            return m.name
    raise error("NKI003", f"{slot}={value!r}", f"a member of nisa.{kind.__name__}")

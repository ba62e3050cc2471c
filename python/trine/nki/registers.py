"""Registers of the sequencers, and the device loops that count in them.

A VirtualRegister is a number in the trace's own register file; which engines hold it is the scheduler's business.
The index of a device loop is affine in the iteration, so addresses made from it need no register at all.
"""

import itertools

from trine.nki.tensor import NKIObject, NkiTensor, is_register
from trine.nki.trace import current, error


class VirtualRegister(NKIObject):
    is_virtual_register = True

    def __init__(self, number, frozen=False, loop=None, of=None):
        self.number = number
        self.frozen = frozen
        self.loop = loop  # (depth, first, step) of a loop's index; first may be a register
        self.of = of  # the register whose number this is, kept in use by it

    def _no(self, *_):
        raise error("NKI013", "a register's value used in Python", "a value known while the kernel is traced",
                    "use nl.fori_loop or nl.while_loop, and pass registers as scalar_offset")

    __bool__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _no
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _no

    def operand(self, tracer):
        try:
            return tracer.trace.register(self.number)
        except ValueError:
            raise error("NKI028", f"register {self.number + 1} of the kernel", "as many as a sequencer has",
                        "let registers go that are not needed any more, or load offsets from a tile") from None

    def address(self, tracer, offset, scale):
        """offset and Trace.tile's arguments for offset + value·scale."""
        if self.loop is None:
            return offset, {"reg": (self.number, scale)}
        depth, first, step = self.loop
        steps = [0] * (depth + 1)
        steps[depth] = step * scale
        if is_register(first):
            return offset, {"reg": (first.number, scale), "steps": steps}
        return offset + first * scale, {"steps": steps}


class IndexSum(NKIObject):
    """Indices of device loops, each times its scale, in one address."""

    is_virtual_register = True

    def __init__(self, parts):
        self.loop = self.parts = parts
        self.registers = sum(p.registers if isinstance(p, IndexSum) else is_register(p.loop[1]) for p, _ in parts)

    def address(self, tracer, offset, scale):
        steps, registers = [], {}
        for index, own in self.parts:
            offset, found = index.address(tracer, offset, own * scale)
            steps = [a + b for a, b in itertools.zip_longest(steps, found.pop("steps"), fillvalue=0)]
            registers.update(found)
        return offset, {**registers, "steps": steps}


OFFSETS_MAX = 8  # registers that take turns at the offsets of transfers


def as_register(tracer, index):
    """A register, or one loaded with the single element of an SBUF tensor for the instruction in hand."""
    if is_register(index):
        return index
    if len(tracer.offsets) < OFFSETS_MAX:
        tracer.offsets.append(alloc())
    else:
        tracer.offsets.append(tracer.offsets.pop(0))
    load(tracer.offsets[-1], index)
    return tracer.offsets[-1]


class _Owned(VirtualRegister):
    """A register that alloc() gave. When the kernel drops it outside device loops, its number is free again: inside one,
    the next iteration may still read it."""

    def __init__(self, tracer):
        super().__init__(tracer.registers_free.pop() if tracer.registers_free else tracer.register())
        self.tracer = tracer

    def __del__(self):
        if not self.tracer.loops:
            self.tracer.registers_free.append(self.number)


def alloc(x=None):
    tracer = current()
    if x is None and tracer.loops:
        return VirtualRegister(tracer.register())  # starts at zero once, not in every iteration
    used_before = bool(tracer.registers_free)
    register = _Owned(tracer)
    if x is not None or used_before:
        move(register, 0 if x is None else x)
    return register


def _writable(register):
    if not is_register(register):
        raise error("NKI003", f"{register!r} as a register", "what nisa.register_alloc() returns")
    if register.frozen:
        raise error("NKI028", "a write to a loop's own index", "a register of your own",
                    "allocate one before the loop with nisa.register_alloc()")
    return register


def move(dst, src=None, imm=None):
    """imm is how NKI 0.2 names src."""
    tracer, src = current(), imm if src is None else src
    _writable(dst)
    source = src.operand(tracer) if is_register(src) else tracer.imm(src)
    return tracer.emit("register_move", None, {"dst": dst.operand(tracer), "src": source}, {})


def load(dst, src):
    tracer = current()
    _writable(dst)
    _one_element(src, "src")
    return tracer.emit("register_load", None, {"dst": dst.operand(tracer), "src": src.tile()}, {})


def store(dst, src):
    tracer = current()
    _one_element(dst, "dst")
    source = src.operand(tracer) if is_register(src) else tracer.imm(src)
    return tracer.emit("register_store", None, {"dst": dst.tile(), "src": source}, {})


def _one_element(tensor, slot):
    if not isinstance(tensor, NkiTensor) or tensor.size != 1:
        raise error("NKI015", f"{slot} is {tensor!r}", "a tensor of one element, shape [1] or [1, 1]")


def alu(dst, a, op, b):
    tracer = current()
    right = b.operand(tracer) if is_register(b) else tracer.imm(b)
    tracer.emit("register_alu", None, {"dst": dst.operand(tracer), "a": a.operand(tracer), "b": right}, {"op": op})


class CountedLoop:
    """for index in range(lower, upper, step), on the device. enter() returns the index."""

    def __init__(self, lower, upper, step=1):
        if is_register(step) or type(step) is not int or step < 1:
            raise error("NKI028", f"step {step!r}", "a positive whole number known while tracing")
        self.lower, self.upper, self.step = lower, upper, step

    def enter(self):
        tracer = current()
        if tracer.ordered:
            raise error("NKI028", "a device loop inside nl.no_reorder", "no_reorder inside the loop's body")
        self.counter = alloc(self.lower)
        index = VirtualRegister(self.counter.number, True, (len(tracer.loops), self.lower, self.step), of=self.counter)
        if is_register(self.lower) or is_register(self.upper):
            self.trips = self._iterations()
            tracer.trace.loop(register=self.trips.number, core=tracer.program.core)
        else:
            trips = max(0, -(-(self.upper - self.lower) // self.step))
            tracer.trace.loop(trips=trips, core=tracer.program.core)
        tracer.loops.append(index)
        return index

    def _iterations(self):
        """A register with ⌈(upper − lower) / step⌉."""
        trips = alloc(self.upper)
        if self.lower != 0 or is_register(self.lower):
            alu(trips, trips, "subtract", self.lower)
        if self.step == 1:
            return trips
        if self.step & (self.step - 1):
            raise error("NKI028", f"step {self.step} with a bound that a register holds", "a power of two",
                        "count in steps of 1 and scale the index where it is used")
        alu(trips, trips, "add", self.step - 1)
        alu(trips, trips, "right_shift", self.step.bit_length() - 1)
        return trips

    def leave(self):
        tracer = current()
        alu(self.counter, self.counter, "add", self.step)
        tracer.loops.pop()
        tracer.trace.end_loop(core=tracer.program.core)


def fori_loop(lower, upper, body_fun, step=1):
    loop = CountedLoop(lower, upper, step)
    body_fun(loop.enter())
    loop.leave()


def dynamic_range(start, stop=None, step=1):
    """A Python iterator whose body is traced once and runs on the device."""
    loop = CountedLoop(0, start, step) if stop is None else CountedLoop(start, stop, step)
    yield loop.enter()
    loop.leave()


def while_loop(init, body_fun):
    tracer = current()
    if not is_register(init):
        raise error("NKI003", f"init is {init!r}", "a register", "nisa.register_alloc(1)")
    if tracer.ordered:
        raise error("NKI028", "a device loop inside nl.no_reorder", "no_reorder inside the loop's body")
    condition = alloc()
    move(condition, init)
    tracer.trace.loop(register=condition.number, while_nonzero=True, core=tracer.program.core)
    tracer.loops.append(None)
    result = body_fun(VirtualRegister(condition.number, of=condition))
    if not is_register(result):
        raise error("NKI028", f"the body returned {result!r}", "the register with the next condition")
    if result.number != condition.number:
        move(condition, result)
    tracer.loops.pop()
    tracer.trace.end_loop(core=tracer.program.core)

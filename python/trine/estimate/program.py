"""One phase of a model as a program for one core: traced without weights, compiled, timed."""

import contextlib
import contextvars
import dataclasses
import functools
import json
import time

from trine import _core
from trine.estimate import cached, kinds, memory, neuron, parts, where
from trine.estimate.lowering import bytes_of, traced
from trine.progress import stage

ARGUMENTS = {  # of a phase, after the parameters: what each is kept as
    "prefill": {2: "cache"},
    "decode": {2: "cache"},
    "train": {1: "optimiser"},
    "gradients": {1: "optimiser"},
    "forward": {},
}


@dataclasses.dataclass
class Run:
    device_ms: float  # without the launch's envelope
    envelope_ms: float
    counted: object  # _core.Report: what is added and extended
    sharing: int  # cores on a stack of HBM
    uses: list  # of other cores: kind, bytes, ranks, count
    memory: dict
    layers: list  # see where.by_layer
    host_bytes: int  # that cross from and to the host in a call
    on_host: list  # ops that the device does not compute
    trace_s: float
    compile_s: float
    timer_s: float
    is_repeated: bool = False  # work done before, which counts as none
    whole: object = None  # Run: the same with whole weights, where these are stored in few bits

    @functools.cached_property
    def report(self):
        """The numbers, as of `_core.time(…).report()`."""
        return self.counted.numbers() | {"sharing": self.sharing} | ({"mfu_pct": 0.0} if self.is_repeated else {})


def host_bytes(traced_phase, phase, writes):
    """Inputs that are new in every call and results. What a model that writes keeps on the device, and logits that the device
    picks a token from, do not cross."""
    import jax

    inputs = traced_phase.shapes[-1] if phase in ("train", "gradients") else traced_phase.shapes[1]
    if phase != "forward" or writes:
        return bytes_of(inputs)
    return bytes_of(inputs) + bytes_of(jax.eval_shape(traced_phase.function, *traced_phase.shapes))


CHUNK = 2048  # tokens at once of a longer prompt: enough to hide the reading of weights six times over (337 operations for a byte on Trainium1)
IMAGES = {"resnet": 8, "convnext": 8, "efficientnet": 8, "vgg": 8, "swin": 8, "unet": 1, "vae": 1, "dit": 1, "sd3": 1,
    "flux": 1}  # likewise: 8 of the smallest, 7 x 7 positions, hide it once; a UNet's work is on 64 x 64
# Layers of the programs that a long one is taken from: between the first and the last, which overlap with what is around
# all layers, one and three. Of a large layer (instructions; each takes half a second to compile) there are one and two:
# what overlaps at its edges are some hundreds of them.
FEW, MORE = 3, 5
LARGE = 250_000
LONG = 150_000  # instructions, from which on that is done: the compiler takes about 10 µs for each, so more than 1.5 s


def timed(model, phase, batch, seq, at, **how):
    """at: the Layout. A model whose weights are stored in few bits is timed with whole ones, too: see neuron.py."""
    found = by_pieces(model, phase, batch, seq, at, **how)
    if not model.storage or neuron.choice("weights.stored") != "as whole ones":
        return found
    return dataclasses.replace(found, whole=by_pieces(model.unstored(), phase, batch, seq, at, **how))


def by_pieces(model, phase, batch, seq, at, **how):
    """ Of a large batch two pieces are timed, of one size and twice as large: each further one adds the
    same. What a decode step does is not cut: its tokens are few."""
    piece = IMAGES.get(model.family.kind) or max(1, CHUNK // tokens_of(model, seq))
    if phase == "decode" or batch <= 2 * piece:
        return by_tokens(model, phase, batch, seq, at, **how)
    one, two = (by_tokens(model, phase, n * piece, seq, at, **how) for n in (1, 2))
    times = batch / piece - 1
    uses = [b | {"bytes": int(a["bytes"] + times * (b["bytes"] - a["bytes"]))} for a, b in zip(one.uses, two.uses, strict=True)]
    run = extended(one, two, times, uses, where.line(one.layers, two.layers, times))
    return dataclasses.replace(run, host_bytes=int(one.host_bytes * batch / piece))


def tokens_of(model, seq):
    s = model.settings
    sound = model.family.kind == "seq2seq" and s.bands
    known = {"vit": lambda: s.patches + 1, "clip": lambda: s.vision.patches + seq, "seeing": lambda: s.vision.patches + seq,
             "speech": lambda: seq // 320, "seq2seq": lambda: s.encoder.context if sound else seq}  # fmt: skip
    return max(1, known.get(model.family.kind, lambda: seq)())


def by_tokens(model, phase, batch, seq, at, **how):
    """A long prompt goes through by chunks and is timed by its first and its last one: those between look at as many more
    keys as they stand later, so their time lies between the two."""
    if phase != "prefill" or model.family.kind != "decoder" or seq <= CHUNK:
        return by_layers(model, phase, batch, seq, at, **how)
    first = by_layers(model, phase, batch, CHUNK, at, **how)
    last = by_layers(model, phase, batch, seq, at, tokens=CHUNK, **how)
    return between(first, last, seq / CHUNK)


def by_layers(model, phase, batch, seq, at, **how):
    """A model of many equal layers is timed by two that have a few: each layer adds the same."""
    layers = equal_layers(model)
    if not layers and len(keys := kinds.layer_keys(model)) > MORE:
        return by_kinds(model, keys, phase, batch, seq, at, **how)
    if layers <= MORE:
        return timed_whole(model, phase, batch, seq, at, **how)

    def of(layers):
        return timed_whole(model.with_layers(layers), phase, batch, seq, at, **how)

    least, most, few = 1, 2, of(1)
    is_short = few.report["instructions"] * layers < LONG
    if not is_short and few.report["instructions"] < LARGE:
        least, most, few = FEW, MORE, of(FEW)
        is_short = few.report["instructions"] * layers < LONG * least
    if is_short:
        return timed_whole(model, phase, batch, seq, at, **how)
    more, times = of(most), (layers - least) / (most - least)
    counts = {(u["kind"], u["bytes"], u["ranks"]): u["count"] for u in few.uses}
    had = [counts.get((u["kind"], u["bytes"], u["ranks"]), 0) for u in more.uses]
    uses = [u | {"count": int(n + times * (u["count"] - n))} for n, u in zip(had, more.uses, strict=True)]
    return extended(few, more, times, uses, where.extended(few.layers, more.layers, layers))


def by_kinds(model, keys, phase, batch, seq, at, **how):
    """A model of layers of several kinds is timed by a few of each, and for each kind by one that has more of it."""

    def of(layout):
        return timed_whole(kinds.with_these(model, layout), phase, batch, seq, at, **how)

    each = 1
    few, left = kinds.sample(keys, each)
    base = of(few)
    if base.report["instructions"] / len(few) * len(keys) < LONG:
        return timed_whole(model, phase, batch, seq, at, **how)
    if base.report["instructions"] < LARGE and len(left) == 1:  # edges of small layers weigh more
        each, (few, left) = 2, kinds.sample(keys, 2)
        base = of(few)
    longer = {key: (of(kinds.with_more(few, key, each)), each) for key in left}
    runs = [(run, left[key] / more) for key, (run, more) in longer.items()]
    return kinds.mixed(base, runs, kinds.uses_of(base, runs), kinds.rows_of(keys, few, base, longer))


def equal_layers(model):
    """How many layers a model has that are all alike; 0 where they are not."""
    s = model.settings
    alike = model.family.kind in ("decoder", "encoder", "vit") and not (s.forms or s.window and s.window_from)
    return s.layers if alike else 0


def between(first, last, count):
    """`count` programs, evenly from the first one to the last, with the collectives of all their tokens at once."""

    def total(a, b):
        return type(b)((a + b) / 2 * count)

    had = {(r["layer"], r["part"]): r for r in first.layers}
    layers = []
    for row in last.layers:
        old = had.get((row["layer"], row["part"]), row)
        busy = {unit: total(old["busy_ms"].get(unit, 0.0), ms) for unit, ms in row["busy_ms"].items()}
        layers.append(row | {"ms": total(old["ms"], row["ms"]), "busy_ms": busy})
    return dataclasses.replace(
        last,
        device_ms=total(first.device_ms, last.device_ms),
        counted=_core.reports_between(first.counted, last.counted, count),
        uses=[u | {"bytes": int(u["bytes"] * count)} for u in last.uses],
        layers=layers,
        host_bytes=int(last.host_bytes * count),
        trace_s=first.trace_s + last.trace_s,
        compile_s=first.compile_s + last.compile_s,
        timer_s=first.timer_s + last.timer_s,
    )


def extended(few, more, times, uses, layers):
    """few + times × (more - few), number by number; `uses` and `layers` as given."""

    def line(a, b):
        return type(b)(a + times * (b - a)) if not isinstance(b, bool) else b

    def both(a, b, of):
        return {k: line(a[k], b[k]) if k in of else b[k] for k in b}

    held = both(few.memory, more.memory, ("weights", "cache", "optimiser", "activations", "scratch", "used"))
    return dataclasses.replace(
        more,
        device_ms=line(few.device_ms, more.device_ms),
        counted=_core.extend_reports(few.counted, more.counted, times),
        uses=uses,
        memory=held | {"fits": held["used"] <= held["room"]},
        layers=layers,
        trace_s=few.trace_s + more.trace_s,
        compile_s=few.compile_s + more.compile_s,
        timer_s=few.timer_s + more.timer_s,
    )


HEARD = []  # told of each program that is timed: `trine estimate --profile`, profiles of servers
_runs = contextvars.ContextVar("runs", default=None)  # by what decides a program, while shared() is on


@contextlib.contextmanager
def shared():
    """Within it a program that was timed is not made again: layouts of one model are made of the same few."""
    token = _runs.set({} if _runs.get() is None else _runs.get())
    try:
        yield
    finally:
        _runs.reset(token)


def once(key, at, make):
    """make(), or what it gave for the same key on the same cores; who hears of programs hears of each."""
    runs, where = _runs.get(), (at.instance["name"], at.tp, at.lnc, at.parts, at.idle)
    if runs is None or HEARD:
        return make()
    if (key, where) not in runs:
        runs[key, where] = make()
    return runs[key, where]


def timed_whole(model, phase, batch, seq, at, tokens=None, **how):
    """The program as it is."""
    key = json.dumps([model.config, repr(model.settings), model.dtype_name, phase, batch, seq, tokens, how], sort_keys=True, default=str)
    return once(key, at, lambda: timed_anew(model, phase, batch, seq, at, tokens, **how))


def timed_anew(model, phase, batch, seq, at, tokens, **how):
    what, begin = f"{model.family.name}, {phase}", time.perf_counter()
    asked = [phase, batch, seq, at.tp, at.parts, tokens]
    with stage(f"tracing {what}"):
        program = cached.program(model, what, asked, lambda: traced_phase(model, *asked))
    trace_s = time.perf_counter() - begin
    return dataclasses.replace(timed_program(program, at, what, **how), trace_s=trace_s)


def traced_phase(model, phase, batch, seq, tp, parts, tokens):
    from trine import models

    made = models.phase(model, phase, batch, seq, tp, parts, tokens)
    resident = {"weights": 0} | {resident: i for i, resident in ARGUMENTS[phase].items()}
    return traced(made.function, made.shapes, resident, made.donated, host_bytes(made, phase, model.writes))


def timed_program(program, at, what, cast="none", cast_type="bf16"):
    """program: lowering.Traced."""
    name, chip, begin = at.instance["name"], _core.chip(at.instance["chip"]), time.perf_counter()
    with stage(f"compiling {what}, {name}"):
        compiled = _core.compile_device(program.artifact, at.instance["chip"], cast, cast_type, list(program.ranges.get("weights", ())))
    built = time.perf_counter()
    sharing = chip["cores"] // chip["hbm.stacks"] if at.copies * at.cores >= at.instance["cores"] else at.lnc
    programs = parts.programs_of(compiled)
    with stage(f"timing {what}, {name}"):
        found = [_core.time(each, name, cores_on_stack=max(1, sharing), lines=True) for each in programs]
    end = time.perf_counter()
    counted = _core.add_reports([f.counted for f in found])
    for hear in HEARD:
        hear(what, name, programs, max(1, sharing), compiled, counted.numbers()["time_ns"])
    envelope = (chip["kernel.preamble_ns"] + chip["kernel.teardown_ns"]) / 1e6 * len(found)
    room = chip["hbm.bytes"] // chip["cores"] * at.lnc
    given = [leaf for at in program.given for leaf in at]
    return Run(
        device_ms=counted.numbers()["time_ns"] / 1e6 - envelope,
        envelope_ms=envelope,
        counted=counted,
        sharing=sharing,
        uses=compiled.collectives,
        memory=memory.per_core(programs, max(f.scratch_peak_bytes for f in found), program.ranges, given, at.parts, room),
        layers=where.by_layer(parts.lines_of(found)),
        host_bytes=parts.moved_bytes(compiled) + program.host_bytes,
        on_host=[h["op"] for h in compiled.host_placed],
        trace_s=0.0,
        compile_s=built - begin,
        timer_s=end - built,
    )

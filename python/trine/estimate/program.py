"""One phase of a model as a program for one core: traced without weights, compiled, timed."""

import dataclasses
import time

from trine import _core
from trine.estimate import memory, parts, where
from trine.estimate.lowering import bytes_of, leaf_range, stablehlo
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
    report: dict
    uses: list  # of other cores: kind, bytes, ranks, count
    memory: dict
    layers: list  # see where.by_layer
    host_bytes: int  # that cross from and to the host in a call
    on_host: list  # ops that the device does not compute
    trace_s: float
    compile_s: float
    timer_s: float


def host_bytes(work, phase):
    """Inputs that are new in every call and results. What a decoder keeps on the device, and logits that the device
    picks a token from, do not cross."""
    import jax

    inputs = work.shapes[-1] if phase in ("train", "gradients") else work.shapes[1]
    if phase != "forward":
        return bytes_of(inputs)
    return bytes_of(inputs) + bytes_of(jax.eval_shape(work.function, *work.shapes))


FEW, MORE = 3, 5  # layers of the programs that a long one is taken from
LONG = 150_000  # instructions, from which on it is


def timed(model, phase, batch, seq, at, **how):
    """at: the Layout. A model of many equal layers is timed by two that have a few: each layer adds the same."""
    layers = equal_layers(model)
    if layers <= 2 * MORE:
        return timed_whole(model, phase, batch, seq, at, **how)
    few = timed_whole(model.with_layers(FEW), phase, batch, seq, at, **how)
    if few.report["instructions"] * layers < LONG * FEW:
        return timed_whole(model, phase, batch, seq, at, **how)
    more = timed_whole(model.with_layers(MORE), phase, batch, seq, at, **how)
    return extended(few, more, (layers - FEW) / (MORE - FEW), layers)


def equal_layers(model):
    """How many layers a model has that are all alike; 0 where they are not."""
    s = model.settings
    alike = model.family.kind in ("decoder", "encoder", "vit") and not (s.window and s.window_from)
    return s.layers if alike else 0


def extended(few, more, times, layers):
    """few + times × (more - few), number by number."""

    def line(a, b):
        return type(b)(a + times * (b - a)) if not isinstance(b, bool) else b

    def both(a, b, of):
        return {k: line(a[k], b[k]) if k in of else b[k] for k in b}

    report = both(few.report, more.report, ("time_ns", "flops", "hbm_read_bytes", "hbm_write_bytes", "instructions", "transfers"))
    for share in ("mfu_pct", "mbu_pct"):  # are of the time, and so are added up with it
        report[share] = line(few.report[share] * few.report["time_ns"], more.report[share] * more.report["time_ns"]) / report["time_ns"]
    held = both(few.memory, more.memory, ("weights", "cache", "optimiser", "activations", "scratch", "used"))
    counts = {(u["kind"], u["bytes"]): u["count"] for u in few.uses}
    uses = [u | {"count": line(counts.get((u["kind"], u["bytes"]), 0), u["count"])} for u in more.uses]
    return dataclasses.replace(
        more,
        device_ms=line(few.device_ms, more.device_ms),
        report=report,
        uses=uses,
        memory=held | {"fits": held["used"] <= held["room"]},
        layers=where.extended(few.layers, more.layers, layers),
        trace_s=few.trace_s + more.trace_s,
        compile_s=few.compile_s + more.compile_s,
        timer_s=few.timer_s + more.timer_s,
    )


def timed_whole(model, phase, batch, seq, at, cast="none", cast_type="bf16"):
    """The program as it is."""
    from trine import models

    name, begin = at.instance["name"], time.perf_counter()
    what = f"{model.family.name}, {phase}, {name}"
    with stage(f"tracing {what}"):
        work = models.phase(model, phase, batch, seq, at.tp, at.parts)
        artifact = stablehlo(work.function, *work.shapes, donated=work.donated, lines=True)
    traced = time.perf_counter()
    chip = _core.chip(at.instance["chip"])
    weights = leaf_range(work.shapes, 0)
    with stage(f"compiling {what}"):
        compiled = _core.compile_device(artifact, at.instance["chip"], cast, cast_type, weights)
    built = time.perf_counter()
    sharing = chip["cores"] // chip["hbm.stacks"] if at.copies * at.cores >= at.instance["cores"] else at.lnc
    programs = parts.programs_of(compiled)
    with stage(f"timing {what}"):
        found = [_core.time(program, name, cores_on_stack=max(1, sharing), lines=True) for program in programs]
    end = time.perf_counter()
    report = parts.added([f.report() for f in found], name)
    envelope = (chip["kernel.preamble_ns"] + chip["kernel.teardown_ns"]) / 1e6 * len(found)
    ranges = {"weights": weights} | {kept: leaf_range(work.shapes, i) for i, kept in ARGUMENTS[phase].items()}
    room = chip["hbm.bytes"] // chip["cores"] * at.lnc
    run = Run(
        device_ms=report["time_ns"] / 1e6 - envelope,
        envelope_ms=envelope,
        report=report | {"sharing": sharing},
        uses=compiled.collectives,
        memory=memory.per_core(programs, max(f.scratch_peak_bytes for f in found), ranges, at.parts, room),
        layers=where.by_layer(parts.lines_of(found)),
        host_bytes=host_bytes(work, phase) + parts.moved_bytes(compiled),
        on_host=[h["op"] for h in compiled.host_placed],
        trace_s=traced - begin,
        compile_s=built - traced,
        timer_s=end - built,
    )
    return with_shared_heads(run, model, at)


def with_shared_heads(run, model, at):
    """Cores of a logical one that have a head between them share its attention, queries or keys by halves; the program
    has each of them do all of it."""
    heads = getattr(model.settings, "heads", 0)
    sharing = min(at.parts, at.shards // heads) if isinstance(heads, int) and heads and at.shards > heads else 1
    if sharing <= 1:
        return run
    layers = [r | {"ms": r["ms"] / sharing} if r["part"] == "attention" else r for r in run.layers]
    less = sum(r["ms"] for r in run.layers) - sum(r["ms"] for r in layers)
    report = run.report | {"time_ns": run.report["time_ns"] - less * 1e6}
    return dataclasses.replace(run, device_ms=run.device_ms - less, report=report, layers=layers)

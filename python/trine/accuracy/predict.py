"""What Trine says of each case, in parts: what our program takes and what is added to it, before any calibration.

A time is a sum of terms, so that a calibration fitted on some cases can be asked about the others without compiling
again. Whole models run by the same code as `trine estimate`; a few processes share the work.
"""

import dataclasses
import os
import sys
import time

from trine import _core
from trine.accuracy import machine


@dataclasses.dataclass(frozen=True)
class Term:
    """`count` times a program of a class: its device time and what is taken as it is, in ms."""

    kind: str
    count: float
    device: float
    rest: float  # collectives, launch, bytes that cross the bus, scores that Neuron's program writes out
    host: str = ""  # the part of a serving loop besides, by name
    serial: float = 0.0  # its compute engines one after the other, tails whole
    dma: float = 0.0  # its bytes at the rate of the DMA engines, where compute may wait for them
    busy: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Of one case; `others`: metrics besides the time, by name. `skip`: why there is none."""

    terms: tuple = ()
    roofline_ms: float = 0.0
    others: dict = dataclasses.field(default_factory=dict)
    bound: str = ""
    skip: str = ""


def predict_all(cases, folder=None, workers=None):
    """{case id: Prediction}; says on stderr how far it is. `folder`: sources of kernels."""
    todo = jobs(cases)
    found, began, workers = {}, time.monotonic(), workers or min(2, os.cpu_count() or 1)
    for done, part in enumerate(_each(todo, folder, workers), 1):
        found |= part
        if sys.stderr.isatty():
            print(f"\r  {done} of {len(todo)} programs, {time.monotonic() - began:.0f} s ", end="", file=sys.stderr, flush=True)
        elif done % 10 == 0 or done == len(todo):
            print(f"  {done} of {len(todo)} programs, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return found


def jobs(cases):
    """Cases that share programs together, the longest first: phases of one model on one machine."""
    groups = {}
    for case in cases:
        whole = "config" in case.ask
        groups.setdefault(case.id.rsplit(" ", 1)[0] if whole else "machine " + case.kind, []).append(case)
    return sorted(groups.values(), key=lambda group: -sum(weight(c) for c in group))


def weight(case):
    return case.ask.get("batch", 1) * (case.ask.get("seq") or 128) * (8 if case.ask.get("phase") == "train" else 1)


def _each(todo, folder, workers):
    if workers < 2 or len(todo) < 2:
        for group in todo:
            yield predict(group, folder)
        return
    from concurrent.futures import as_completed

    from trine.workers import processes

    with processes(workers, "spawn") as pool:
        for done in as_completed([pool.submit(predict, group, folder) for group in todo]):
            yield done.result()


def predict(group, folder):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    answers = {}
    return {case.id: _safely(case, answers, folder) for case in group}


def _safely(case, answers, folder):
    if case.skip:
        return Prediction(skip=case.skip)
    try:
        if case.kind.startswith("collectives"):
            return Prediction((Term(case.kind, 1, 0.0, machine.collective_ms(case)),), machine.collective_roofline_ms(case), bound="collective")
        if "config" not in case.ask:
            return _kernel(case, folder)
        return _model(case, answers)
    except Exception as e:  # whatever a row of another's file asks for is said of that row, and the others are scored
        return Prediction(skip=(str(e).splitlines() or [type(e).__name__])[0].split(";")[0])


def _kernel(case, folder):
    if "kernel" in case.ask and not folder:
        return Prediction(skip="its source is not here: --kernels DIR")
    ms, report = machine.kernel_ms(case, folder)
    if not report:
        return Prediction((Term(case.kind, 1, 0.0, ms),), bound="dma" if "copies" in case.ask else "launch")
    chip, at = _core.chip(report["chip"]), _core.instance(case.instance)
    others = {"hbm_read_bytes": report["hbm_read_bytes"], "hbm_write_bytes": report["hbm_write_bytes"]}
    passes = chip["tensor.fp32_passes"] if case.ask["dtype"] == "float32" else 1
    least = max(report["flops"] * passes / peak(chip), least_bytes(case) / memory_rate(chip, at))
    return Prediction((Term(case.kind, 1, ms, 0.0),), least / 1e6, others, report["bound"]["by"])


def least_bytes(case):
    size = 4 if case.ask["dtype"] == "float32" else 2
    total = 0
    for shape in case.ask["shapes"]:
        n = size
        for side in shape:
            n *= side
        total += n
    return total


def peak(chip):
    """bf16 operations per ns of a core."""
    return 2 * chip["tensor.rows"] * chip["tensor.columns"] * chip["tensor.clock_ghz"]


def memory_rate(chip, at):
    """Bytes per ns of a core's share of the chip's memory."""
    return chip["hbm.bandwidth_bytes_per_ns"] / chip["cores"]


def _model(case, answers):
    from trine.estimate import calibration
    from trine.estimate.generation import bucket

    ask = dict(case.ask)
    new, phase = ask.pop("new_tokens", 0), ask["phase"]
    generated = case.kind == "generation"

    def of(phase, seq):
        key = (phase, seq)
        if key not in answers:
            answers[key] = _answer(ask | {"phase": phase, "seq": seq})
        return answers[key]

    if not new:
        answer = of(phase, ask.get("seq"))
        return Prediction((term(answer, case),), roofline_ms(answer), others(answer), answer.report["bound"]["by"])
    seq = ask["seq"]
    most = seq + new
    shortest = bucket(seq + 1, most)
    short, long = of("decode", shortest), of("decode", most)

    def share(position):
        return 0.0 if shortest == most else (bucket(position + 1, most) - shortest) / (most - shortest)

    positions = range(seq + 1, most) if generated else [seq + new // 2]
    later = sum(share(p) for p in positions)
    steps = [(len(positions) - later, short), (later, long)]
    terms = [dataclasses.replace(term(a, case), count=n) for n, a in steps if n > 0]
    least = sum(n * roofline_ms(a) for n, a in steps)
    if generated:
        first = of("prefill", seq)
        terms.insert(0, term(first, case))
        least += roofline_ms(first)
    return Prediction(tuple(terms), least, {}, long.report["bound"]["by"])


def _answer(ask):
    """A row's configuration may spell sizes as other families do: what its own does not read is left out."""
    from trine.estimate import estimate
    from trine.models.families import family_of
    from trine.models.reading import only_read

    ask = {k: v for k, v in ask.items() if v is not None}
    config = ask.pop("config")
    return estimate(only_read(family_of(config), config), **ask)


def term(answer, case):
    """A device profile holds nothing of the host's."""
    from trine.estimate import calibration

    profile = "device_time_derived" in case.measured
    moved = sum(run.host_bytes * count for run, count in answer.runs)
    if answer.phase == "train":  # a simulation of programs as Neuron's are likely to be: nothing is left to be fitted
        return Term(answer.kind, 1, answer.neuron_ms, answer.rest_ms + calibration.bus_ms(moved), busy=answer.busy_ms)
    beside = answer.unfused_ms + answer.norms_ms + answer.blocks.rows_ms
    rest = answer.collectives_ms + beside + (0.0 if profile else answer.launch_ms + calibration.bus_ms(moved))
    served = "" if profile else calibration.HOST_PARTS.get(answer.phase, "")
    return Term(answer.kind, 1, answer.least_ms, rest, served, answer.serial_ms, answer.waits_ms, answer.busy_ms)


def roofline_ms(answer):
    """The datasheet's least: operations at the peak or bytes at the memory's rate, whichever is longer, of each program."""
    at = answer.layout
    chip = _core.chip(at.instance["chip"])
    total = 0.0
    for run, count in answer.runs:
        held = run.memory["weights"] + run.memory["cache"]
        total += count * max(run.report["flops"] / peak(chip), held / at.lnc / memory_rate(chip, at.instance)) / 1e6
    return total


def others(answer):
    r = answer.report
    return {
        "hbm_read_bytes": r["hbm_read_bytes"],
        "hbm_write_bytes": r["hbm_write_bytes"],
        "device_ms": answer.device_ms + answer.collectives_ms,
        "flop_ms": r["mfu_pct"] / 100 * r["time_ns"] / 1e6,
    }

"""The numbers of an estimate: device time, collectives, launch and host apart; then what follows from them."""

import dataclasses
import time

from trine import _core
from trine.estimate import calibration
from trine.estimate.lowering import bytes_of, leaf_range, stablehlo
from trine.estimate.parts import programs_of, report_of

DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
PRODUCT = {"prefill": "token", "decode": "token", "train": "sequence", "forward": "inference"}


@dataclasses.dataclass
class Answer:
    """Times in ms; of one call of the phase's program, on `tp` cores."""

    name: str
    phase: str
    instance: str
    batch: int
    seq: int
    tp: int
    kind: str  # of program, for the calibration
    device_ms: float
    launch_ms: float
    collectives_ms: float
    host_ms: float
    band: tuple  # factors around the likely time
    report: dict  # of the program on one core
    collectives: list
    memory: dict  # bytes per core
    compile_s: float
    timer_s: float
    results: float  # of one call: inferences, tokens or sequences
    copies: int  # of the model that fill the instance

    @property
    def achievable_ms(self):
        return self.device_ms + self.collectives_ms + self.launch_ms

    @property
    def likely_ms(self):
        factor = calibration.factor(self.kind)["factor"]
        return self.device_ms * factor + self.collectives_ms + self.launch_ms + self.host_ms

    @property
    def throughput(self):
        """Results per second over all cores of the instance."""
        return self.copies * self.results / self.likely_ms * 1e3

    def cost(self):
        busy = min(1.0, max(self.report["mfu_pct"], self.report["mbu_pct"]) / 100)
        return _core.cost_of(self.instance, self.likely_ms * 1e6, 0.0, self.copies * self.results, busy)

    def as_dict(self):
        r, likely = self.report, self.likely_ms
        return {
            "version": 1,
            "model": self.name,
            "phase": self.phase,
            "instance": self.instance,
            "batch": self.batch,
            "seq": self.seq,
            "tp": self.tp,
            "latency_ms": {
                "p50": likely,
                "low": likely * self.band[0],
                "high": likely * self.band[1],
                "achievable": self.achievable_ms,
                "device": self.device_ms,
                "collectives": self.collectives_ms,
                "launch": self.launch_ms,
                "host": self.host_ms,
            },
            "calibration": calibration.factor(self.kind) | {"class": self.kind},
            "throughput_per_s": self.throughput,
            "result": PRODUCT[self.phase],
            "copies": self.copies,
            "mfu_pct": r["mfu_pct"],
            "mbu_pct": r["mbu_pct"],
            "flops": r["flops"],
            "hbm_read_bytes": r["hbm_read_bytes"],
            "hbm_write_bytes": r["hbm_write_bytes"],
            "bound": r["bound"]["by"],
            "memory_bytes_per_core": self.memory,
            "collectives": self.collectives,
            "cost": self.cost(),
            "instructions": r["instructions"],
            "compile_s": self.compile_s,
            "timer_s": self.timer_s,
        }


def _memory(instance, weights, cache, programs, tp):
    chip = _core.chip(instance["chip"])
    scratch = max(_hbm_bytes(p, "scratch") for p in programs)
    io = max(_hbm_bytes(p, "input", "output") for p in programs)
    room = chip["hbm.bytes"] // chip["cores"]
    used = weights + cache + scratch + max(0, io - weights - cache)
    return {"weights": weights, "cache": cache, "activations": max(0, io - weights - cache), "scratch": scratch,
            "used": used, "room": room, "fits": used <= room}  # fmt: skip


def _hbm_bytes(program, *kinds):
    return sum(_tensor_bytes(t) for t in program.tensors if t["space"] == "hbm" and t["kind"] in kinds)


def _tensor_bytes(t):
    size = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}.get(t["dtype"], 1)
    for n in t["shape"]:
        size *= n
    return size


def instance_of(name):
    for row in _core.instances():
        if row["name"] == name:
            return row
    raise ValueError(f'no instance "{name}"; `trine ls --all` lists them')


def estimate_program(artifact, instance, *, auto_cast="none", auto_cast_type="bf16", weights=()):
    """Compiles a StableHLO program for a core of the instance and times it: (Compiled, report, seconds, seconds)."""
    chip = instance_of(instance)["chip"]
    begin = time.perf_counter()
    compiled = _core.compile_device(artifact, chip, auto_cast, auto_cast_type, list(weights))
    middle = time.perf_counter()
    report = report_of(compiled, instance)
    return compiled, report, middle - begin, time.perf_counter() - middle


def usual_dtype(settings):
    """What the configuration says of its parameters, else how such models are served: decoders in bf16."""
    from trine.models.families import family_of

    told = str(settings.get("torch_dtype") or settings.get("dtype") or "")
    return DTYPES.get(told) or ("bfloat16" if family_of(settings).kind == "decoder" else "float32")


def estimate(config, *, phase="forward", batch=1, seq=128, instance="trn1.2xlarge", tp=1, auto_cast="none",
             auto_cast_type="bf16", dtype=None):  # fmt: skip
    """One phase of a model on an instance. `config` as `trine.models.load_config` takes it."""
    from trine import models

    settings = models.load_config(config) if not isinstance(config, dict) else config
    dtype = dtype or usual_dtype(settings)
    places = settings.get("max_position_embeddings") or settings.get("n_positions")
    if places and seq > places:
        raise models.ConfigError(f"{seq} tokens; the configuration has {places} positions")
    model = models.build(settings, dtype)
    work = models.phase(model, phase, batch, seq, tp)
    artifact = stablehlo(work.function, *work.shapes, donated=work.donated)
    weights = leaf_range(work.shapes, 0)
    compiled, report, compile_s, timer_s = estimate_program(
        artifact, instance, auto_cast=auto_cast, auto_cast_type=auto_cast_type, weights=weights
    )
    machine = instance_of(instance)
    uses = [
        use | {"ns": _core.time_collective(instance, use["kind"], use["bytes"], use["ranks"])["ns"]}
        for use in compiled.collectives
        if use["ranks"] > 1
    ]
    cache = bytes_of(work.shapes[2]) if phase in ("prefill", "decode") else 0
    narrowed = auto_cast != "none" and dtype == "float32"
    chip = _core.chip(machine["chip"])
    launch = (chip["kernel.preamble_ns"] + chip["kernel.teardown_ns"]) / 1e6
    return Answer(
        name=settings.get("_name_or_path") or settings.get("model_type", "model"),
        phase=phase,
        instance=instance,
        batch=batch,
        seq=seq,
        tp=tp,
        kind=calibration.kind_of(model.family.kind, phase),
        device_ms=report["time_ns"] / 1e6 - launch,
        launch_ms=launch,
        collectives_ms=sum(u["ns"] * u["count"] for u in uses) / 1e6,
        host_ms=calibration.host_ms(phase),
        band=calibration.band(calibration.kind_of(model.family.kind, phase)),
        report=report,
        collectives=uses,
        memory=_memory(machine, bytes_of(work.shapes[0]) // (2 if narrowed else 1), cache, programs_of(compiled), tp),
        compile_s=compile_s,
        timer_s=timer_s,
        results={"prefill": batch * seq, "decode": batch, "train": batch, "forward": batch}[phase],
        copies=max(1, machine["cores"] // tp),
    )

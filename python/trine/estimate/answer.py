"""The numbers of an estimate: device time, collectives, launch and host apart; then what follows from them."""

import dataclasses
import functools

from trine import _core
from trine.estimate import cached, calibration, cores, experts, fit, memory, neuron, where
from trine.estimate.program import Run, timed

DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
PRODUCT = {"prefill": "token", "decode": "token", "train": "sequence", "forward": "inference"}
PICTURES = ("resnet", "convnext", "efficientnet", "vgg")  # whose size may be any
NARROW = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16"}  # what --auto-cast all makes of f32

TRAFFIC = ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes", "psum_read_bytes", "psum_write_bytes",
           "spill_save_bytes", "spill_reload_bytes")  # fmt: skip


@dataclasses.dataclass
class Answer:
    """Times in ms; of one call of the phase's program, or one training step."""

    name: str
    phase: str
    batch: int  # of one copy and call
    seq: int
    dtype: str
    kind: str  # of program, for the calibration
    layout: cores.Layout
    runs: list  # (Run, how often in a call)
    collectives: list
    results: float  # of one call of one copy: inferences, tokens or sequences
    copies: int
    new_tokens: int = 0
    tokens: int = 0  # of a training run
    generation: dict | None = None
    plan: object = None  # of training; see plan.py
    weights: str = ""  # how they are stored, where that is not the dtype
    images: str = ""  # of what a model of images reads, in place of `seq`
    unfused_ms: float = 0.0  # for scores that Neuron's program writes out; see neuron.py
    short_rows_ms: float = 0.0  # for weights that it reads in short rows
    norms_ms: float = 0.0  # for sums over cores that its layer norms read element by element
    blocks: experts.Blocks = experts.Blocks()  # in which experts have their tokens there
    tail: float = 1.0  # how much more it computes of sequences that end within a tile
    sdk: str | None = None  # whose choices the likely time follows

    @property
    def title(self):
        """Model, batch, sequence and phase in one line."""
        return f"{self.name}, batch {self.batch}, {self.images or f'seq {self.seq}'}, {self.phase}"

    @property
    def main(self) -> Run:
        """The first program that was timed."""
        return self.runs[0][0]

    @property
    def instance(self):
        """Name of the instance."""
        return self.layout.instance["name"]

    @property
    def tp(self):
        """Logical cores over which one copy of the model is cut."""
        return self.layout.tp

    @property
    def report(self):
        """Report of the main program on one core, as a dictionary."""
        return self.main.report

    @property
    def memory(self):
        """Bytes per logical core by kind, and whether they fit."""
        return self.main.memory

    def _sum(self, of):
        return sum(of(run) * count for run, count in self.runs)

    @property
    def device_ms(self):
        """Our program on the engines of one core."""
        return self._sum(lambda run: run.device_ms)

    @property
    def neuron_runs(self):
        """The programs that Neuron's are likely to be like: those with whole weights, where ours are stored in few bits, and with
        experts that have their tokens in blocks."""
        return [(experts.scaled(run.whole or run, self.blocks), count) for run, count in self.runs]

    @property
    def busy_ms(self):
        """How long such a program keeps each engine of a core busy."""
        out = {}
        for run, count in self.neuron_runs:
            for row in run.layers:
                for unit, ms in row["busy_ms"].items():
                    out[unit] = out.get(unit, 0.0) + ms * count
        return out

    @property
    def serial_ms(self):
        """How long the compute engines of our program take as Neuron's overlap them, tails whole; see neuron.py."""
        return self.tail * neuron.serial_ms(self.busy_ms, self.layout.instance["chip"])

    @property
    def dma_ms(self):
        """All bytes of such a program at the rate of a core's DMA engines."""
        chip = _core.chip(self.layout.instance["chip"])
        rate = chip["dma.rate_bytes_per_ns"] * chip["dma.engines_per_core"]
        moved = sum((run.report["hbm_read_bytes"] + run.report["hbm_write_bytes"]) * count for run, count in self.neuron_runs)
        return moved / rate / 1e6 + self.short_rows_ms

    @property
    def waits_ms(self):
        """Of that, what engines may wait for beside our program's own waiting: none where Neuron's overlap as ours do."""
        return self.dma_ms if neuron.is_serial(self.layout.instance["chip"]) else 0.0

    @property
    def least_ms(self):
        """What of our program's time Neuron's cannot be below: all of it, but where most that it waits for are its own short rows."""
        if self.kind in neuron.SPILLING and neuron.is_serial(self.layout.instance["chip"]):
            return self.dma_ms
        return sum(run.device_ms * count for run, count in self.neuron_runs) + self.short_rows_ms

    @property
    def launch_ms(self):
        """Starting programs: the envelope on the device and the host's call."""
        return self._sum(lambda run: run.envelope_ms + calibration.launch_ms(self.layout.instance["chip"]))

    @property
    def collectives_ms(self):
        """Exchange between cores."""
        return sum(u["ns"] * u["count"] for u in self.collectives) / 1e6

    @property
    def host_ms(self):
        """What the host adds: copies, and in serving a part fitted on published times."""
        return self._sum(lambda run: calibration.host_ms(self.phase, run.host_bytes))

    @property
    def achievable_ms(self):
        """What our program takes on the chip: device, collectives and launch."""
        return self.device_ms + self.collectives_ms + self.launch_ms

    @property
    def on_device_ms(self):
        """As a device profile shows it: nothing of the host's."""
        return self.neuron_ms * self.factor + self.unfused_ms + self.norms_ms + self.blocks.rows_ms + self.collectives_ms

    @property
    def neuron_ms(self):
        """Our program's time on the device with as little overlap as Neuron's programs have; see fit.device."""
        return fit.device(self.least_ms, self.serial_ms, self.waits_ms, calibration.waiting(self.kind))

    @property
    def factor(self):
        """How Neuron's own compiler compares with ours for this class of program; fitted on published rows."""
        return calibration.factor(self.kind)["factor"]

    def why_likely(self):
        """What makes the likely time differ from our program's, in words."""
        words = [f"{self.kind}: ×{self.factor:.2f} of device time"]
        if self.neuron_ms > self.device_ms:
            words.insert(0, f"less overlap: {self.neuron_ms / self.device_ms:.2f} of ours")
        if self.neuron_ms < self.device_ms:
            why = "as with whole weights" if self.main.whole else "without waiting for our short rows"
            why = f"experts in blocks of {self.blocks.size} tokens" if self.blocks.factors else why
            words.insert(0, f"{why}: {self.neuron_ms / self.device_ms:.2f} of ours")
        if self.unfused_ms:
            words.append(f"scores written out {self.unfused_ms:.0f} ms")
        if self.short_rows_ms:
            words.append(f"weights in short rows {self.short_rows_ms:.1f} ms")
        if self.norms_ms:
            words.append(f"sums read element by element {self.norms_ms:.1f} ms")
        if self.blocks.rows_ms:
            words.append(f"rows of experts' blocks {self.blocks.rows_ms:.1f} ms")
        return words

    @property
    def out_of_range(self):
        """Why this chip's times are not to be used; nothing for most."""
        return neuron.out_of_range(self.layout.instance["chip"])

    @property
    def likely_ms(self):
        """p50: what Neuron's own stack is likely to take."""
        return self.on_device_ms + self.launch_ms + self.host_ms

    @property
    def band(self):
        """(low, high) as factors of likely_ms: nine in ten measurements of such programs lay between."""
        return calibration.band(self.kind, self.layout.instance["chip"])[0]

    @property
    def band_from(self):
        """Which measurements the band was made of."""
        return calibration.band(self.kind, self.layout.instance["chip"])[1]

    @property
    def throughput(self):
        """Results per second over all cores of the instance, or of all that train together."""
        return self.copies * self.results / self.likely_ms * 1e3

    @property
    def mfu(self):
        """Percent of the peak FLOP rate."""
        flops = self._sum(lambda run: run.report["mfu_pct"] * run.report["time_ns"]) / 1e6
        return flops / self.likely_ms * (1 - self.layout.idle / self.layout.lnc)

    @property
    def mbu(self):
        """Of the stack, by all cores that share it."""
        moved = self._sum(lambda run: run.report["mbu_pct"] * run.report["time_ns"] * run.report["sharing"]) / 1e6
        return moved / self.likely_ms * (1 - self.layout.idle / self.layout.lnc)

    @property
    def p99_ms(self):
        """One call in a hundred takes longer; from the tails of published rows."""
        return self.likely_ms * calibration.tail(self.phase)

    def cost(self):
        """Dollars by way to rent, watts and joules: of a phase's results, of tokens with the prompts they follow, of a
        training step on all its instances."""
        busy = min(1.0, max(self.mfu, self.mbu) / 100)
        ms, results = self.likely_ms, self.copies * self.results
        if self.generation:
            ms, results = self.generation["total_ms"], self.copies * self.batch * self.new_tokens
        nodes = self.plan.nodes if self.plan else 1
        cost = _core.cost_of(self.instance, ms * 1e6, 0.0, results / nodes, busy)
        for rent in cost["rents"] if self.plan else ():
            rent["usd_per_step"] = rent["usd"] * nodes
            rent["usd_per_million_tokens"] = rent["usd_per_million"] / self.seq
            if self.tokens:
                rent["usd_per_run"] = rent["usd_per_step"] * self.steps
        return cost

    @property
    def steps(self):
        """Of a training run over `tokens` tokens."""
        return -(-self.tokens // int(self.copies * self.results * self.seq))

    def advice(self):
        """Cores over which it would fit, where it does not; None where nothing here helps."""
        return memory.advice(self.memory, self.tp, self.layout.instance["cores"] // self.layout.lnc)

    def layers(self):
        """Of our programs, each as often as it runs, and of what they ask of other cores; see where.by_layer. They add up to
        device and collectives."""
        rows = []
        for run, count in self.runs:
            rows += [r | {"ms": r["ms"] * count, "busy_ms": {unit: ms * count for unit, ms in r["busy_ms"].items()}} for r in run.layers]
        for u in self.collectives:
            rows.append({"layer": "collectives", "part": u["kind"].replace("_", "-"), "ms": u["ns"] * u["count"] / 1e6, "bound": "link",
                "busy_ms": {}})
        return rows

    def times(self):
        """All times in ms by name: p50, low, high, achievable and what they are made of."""
        likely = self.likely_ms
        return {
            "p50": likely,
            "p99": self.p99_ms,
            "low": likely * self.band[0],
            "high": likely * self.band[1],
            "achievable": self.achievable_ms,
            "device": self.device_ms,
            "collectives": self.collectives_ms,
            "launch": self.launch_ms,
            "host": self.host_ms,
        }

    def as_dict(self):
        """Everything as plain data, with a version: what `trine estimate --json` prints."""
        r = self.report
        out = {
            "version": 1,
            "model": self.name,
            "phase": self.phase,
            "instance": self.instance,
            "batch": self.batch,
            "seq": self.seq,
            "dtype": self.dtype,
            "weights": self.weights or self.dtype,
            "tp": self.tp,
            "lnc": self.layout.lnc,
            "latency_ms": self.times(),
            "calibration": calibration.factor(self.kind) | {"class": self.kind, "band_from": self.band_from, "neuron_ms": self.neuron_ms,
                                                            "unfused_ms": self.unfused_ms, "short_rows_ms": self.short_rows_ms,
                                                            "norms_ms": self.norms_ms, "blocks_ms": self.blocks.rows_ms,
                                                            "out_of_range": self.out_of_range},
            "throughput_per_s": self.throughput,
            "result": PRODUCT[self.phase],
            "copies": self.copies,
            "mfu_pct": self.mfu,
            "mbu_pct": self.mbu,
            "flops": r["flops"],
            **{key: r[key] for key in TRAFFIC},
            "bound": r["bound"]["by"],
            "by_layer": self.layers(),
            "memory_bytes_per_core": self.memory,
            "collectives": self.collectives,
            "on_host": self.main.on_host,
            "cost": self.cost(),
            "instructions": r["instructions"],
            "trace_s": sum(run.trace_s for run, _ in self.runs),
            "compile_s": sum(run.compile_s for run, _ in self.runs),
            "timer_s": sum(run.timer_s for run, _ in self.runs),
        }
        if not self.memory["fits"]:
            out["fits_at_tp"] = self.advice()
        if self.generation:
            out["generation"] = self.generation
        if self.plan:
            out["training"] = dataclasses.asdict(self.plan) | {"global_batch": int(self.copies * self.results)}
            if self.tokens:
                out["training"]["run"] = {"tokens": self.tokens, "steps": self.steps, "hours": self.steps * self.likely_ms / 3.6e6}
        return out

    def by_kind(self):
        """layers() with layers of one name taken together: "layer 0" to "layer 31" are "32 layers"."""
        return where.by_kind(self.layers())


def instance_of(name):
    try:
        return _core.instance(name)
    except (ValueError, RuntimeError):
        raise ValueError(f'no instance "{name}"; `trine ls --all` lists them') from None


def usual_dtype(settings):
    """What the configuration says of its parameters, else how such models are served: decoders in bf16."""
    from trine.models.families import family_of

    named = str(settings.get("torch_dtype") or settings.get("dtype") or "")
    return DTYPES.get(named) or ("bfloat16" if family_of(settings).kind in ("decoder", "seeing", "sd3", "flux") else "float32")


def usual_seq(model, settings, seq, image):
    """Tokens, or for images their size: ResNet is published at 224. A diffusion UNet and CLIP read texts of 77 tokens, Stable
    Diffusion 3 of 333 (two of 77 beside one of 256) and Flux of 512. Sound is ten seconds of 16 kHz. A picture's tokens
    are among a text's."""
    kind = model.family.kind
    if kind in PICTURES:
        return image or getattr(model.settings, "image", None) or settings.get("image_size") or 224
    if kind == "seeing" and not seq:
        return 128 + cached.image_tokens(model)
    return seq or {"unet": 77, "clip": 77, "sd3": 333, "flux": 512, "speech": 160_000}.get(kind, 128)


def images_of(model, seq):
    """What a model without tokens reads; nothing for others."""
    kinds = {"vit": lambda c: f"images of {c.image}", "swin": lambda c: f"images of {c.image}", "vae": lambda c: f"images of {c.size}",
             "speech": lambda c: f"{seq} samples", "perceiver": lambda c: f"images of {c.image}" if c.sees else ""}  # fmt: skip
    kinds |= dict.fromkeys(PICTURES, lambda c: f"images of {seq}") | dict.fromkeys(("unet", "dit", "sd3", "flux"), lambda c: f"latents of {c.size}")
    return kinds.get(model.family.kind, lambda c: "")(model.settings)


@dataclasses.dataclass
class Asked:
    """A phase of a model on an instance, checked: what estimate_asked() compiles."""

    name: str
    model: object
    phase: str
    batch: int
    each: int  # of the batch, what one program works on
    seq: int
    dtype: str
    at: cores.Layout
    cast: str
    cast_type: str
    new_tokens: int = 0
    tokens: int = 0
    plan: object = None  # of training
    sdk: str | None = None  # of Neuron's whose choices the likely time follows

    @property
    def length(self):
        """Tokens of the cache, or of the prompt."""
        return self.seq + self.new_tokens if self.phase == "decode" else self.seq

    def too_large(self):
        """memory.TooLarge where what is there in any case does not fit, else None; takes no compiling."""
        narrow = self.cast != "none" and self.dtype == "float32"
        held = memory.resident(self.model, self.phase, self.each, self.length, self.at, self.plan, narrow)
        chip = _core.chip(self.at.instance["chip"])
        room = chip["hbm.bytes"] // chip["cores"] * self.at.lnc
        if held["used"] <= room:
            return None
        most = self.at.instance["cores"] // self.at.lnc
        held |= {"room": room, "fits": False}
        return memory.TooLarge(self.name, self.phase, self.at.instance["name"], self.at.tp, held, memory.advice(held, self.at.tp, most))


def ask(config, *, phase="forward", batch=1, seq=None, instance="trn1.2xlarge", tp=1, lnc=None, auto_cast="none",
        auto_cast_type="bf16", dtype=None, new_tokens=0, image=None, tokens=None, sdk=None, model=None, **training):  # fmt: skip
    """What estimate() is asked for, checked; its arguments are estimate()'s. model: what cached.build made of it, where many are asked."""
    from trine import models

    settings = models.load_config(config) if not isinstance(config, dict) else config
    dtype = dtype or usual_dtype(settings)
    if auto_cast == "all" and dtype == "float32" and auto_cast_type in NARROW:
        dtype, auto_cast = NARROW[auto_cast_type], "none"
    model = model or cached.build(settings, dtype)
    if phase == "prefill" and not cached.writes(model):
        phase = "forward"  # all that reading its input is
    if new_tokens and not cached.writes(model):
        raise models.ConfigError(f"{model.family.name} writes no text: there are no new tokens; forward and train are there")
    seq = usual_seq(model, settings, seq, image)
    check_length(model, seq + new_tokens)
    at, each = cores.layout(instance_of(instance), model, batch, tp, lnc)
    plan = None
    if phase == "train":
        from trine.estimate.plan import plan as planned

        plan = planned(model, at, batch, seq, **training)
    name = settings.get("_name_or_path") or settings.get("model_type", "model")
    return Asked(name, model, phase, batch, each, seq, dtype, at, auto_cast, auto_cast_type, new_tokens, tokens or 0, plan, sdk)


def estimate(config, **how):
    """One phase of a model on an instance. `config` as `trine.models.load_config` takes it.

    phase, batch, seq, instance, tp, lnc, dtype, auto_cast, auto_cast_type, image: as the options of `trine estimate`.
    new_tokens: prefill and decode as parts of writing that many tokens after the prompt; see generation.py.
    nodes, pp, dp, accumulate, global_batch, zero, cp, ep, chunks, recompute, optimiser, overlap: of training; see plan.py.
    tokens: of the whole run.
    sdk: the version of Neuron's whose choices the likely time follows, such as "2.18"; the newest known without it.
    """
    return estimate_asked(ask(config, **how))


def estimate_asked(asked):
    """The Answer to what ask() gave."""
    model, at, phase, batch, seq = asked.model, asked.at, asked.phase, asked.batch, asked.seq
    run = functools.partial(timed, model, at=at, cast=asked.cast, cast_type=asked.cast_type)
    made = functools.partial(Answer, name=asked.name, batch=batch, dtype=asked.dtype, layout=at, images=images_of(model, seq),
                             tail=neuron.tail(model, asked.sdk), sdk=asked.sdk,
                             weights=f"{model.storage.kind} ({model.storage.method})" if model.storage else "")  # fmt: skip
    if phase == "train":
        from trine.estimate.step import Step
        from trine.estimate.training import trained

        return trained(run, functools.partial(Step, **made.keywords, tokens=asked.tokens), asked.plan, batch=asked.each, seq=seq)
    found, size = run(phase, asked.each, asked.length), 4 if asked.dtype == "float32" else 2
    answer = made(
        phase=phase,
        seq=asked.length,
        kind=calibration.kind_of(model.family.kind, phase, batch, seq),
        runs=[(found, 1)],
        collectives=cores.collectives(found.uses, at),
        results={"prefill": batch * seq, "decode": batch, "forward": batch}[phase],
        copies=at.copies,
        new_tokens=asked.new_tokens,
        unfused_ms=neuron.unfused_ms(model, phase, asked.each, seq, at, asked.sdk),
        short_rows_ms=neuron.short_rows_ms(model, at, size, asked.sdk),
        norms_ms=neuron.norms_ms(model, phase, asked.each, seq, at, size, asked.sdk),
        blocks=experts.in_blocks(model, phase, asked.each, seq, at, size, asked.sdk),
    )
    if asked.new_tokens:
        from trine.estimate.generation import generated

        answer.generation = generated(answer, run, asked.each, seq, asked.new_tokens)
    return answer


def check_length(model, length):
    """Positions that are learned end with their table; others go on, whatever the model was trained on."""
    from trine import models

    s = model.settings
    s = s.text if model.family.kind == "seeing" else s.decoder if model.family.kind == "seq2seq" else s
    if model.family.kind not in ("decoder", "encoder", "seeing", "seq2seq"):
        return
    if s.positions == "learned" and s.context and length > s.context:
        raise models.ConfigError(f"{length} tokens; the configuration has {s.context} positions")

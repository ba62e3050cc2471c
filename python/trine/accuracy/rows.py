"""Published measurements, read into cases: what one prediction answers, with every number that was published of it.

A file has `models`, `kernels` and `collectives`, each a list of rows with id, value, unit and source; the format is that
of src/run/accuracy/measurements.json. Rows of one case and phase are one measurement and count once. Nothing is
predicted here, and no row is left out silently: `Case.skip` says why one has no prediction.
"""

import dataclasses
import json
import math
import re
from pathlib import Path

from trine import _core
from trine.estimate.neuron import out_of_range

DTYPES = {"fp32": "float32", "f32": "float32", "fp16": "float16", "bf16": "bfloat16"}
SERVED = ("ttft_p50", "tpot_p50", "latency_per_token_p50")
TIMES_MS = {"latency_p50", "latency_mean", "device_time_derived", *SERVED}
RATES = {"throughput", "output_throughput"}
SPELLINGS = {"hidden_size": ("n_embd", "d_model", "dim"), "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
             "num_attention_heads": ("n_head", "n_heads", "attention_heads"), "intermediate_size": ("n_inner", "ffn_dim", "hidden_dim", "d_ff"),
             "max_position_embeddings": ("n_positions", "n_ctx")}  # fmt: skip
BARE = {"architectures": ["AutoModel"]}  # forward passes are of hidden states: the benchmark script of aws-neuron-sdk builds AutoModel
ZOO_LACKS = {"encoder": "encoder", "vision_transformer": "vit", "cnn": "resnet", "diffusion": "unet"}  # by a row's family: the kind


@dataclasses.dataclass(frozen=True)
class Case:
    """One measurement. `group` names what is left out together with it: all of its model family, kernel or collective."""

    id: str
    kind: str  # of program: a class of the page
    group: str
    instance: str
    ask: dict  # of the predictor
    measured: dict  # metric -> value as published
    time_ms: float | None  # the one that counts: what the device was busy with one call, waiting taken out
    rows: int
    source: str = ""
    note: str = ""
    skip: str = ""  # why there is nothing to predict
    role: str = "check"  # input: a number of a chip file, or the choice of a mechanism, was read off it; gate: an upper bound

    @property
    def chip(self):
        return _core.instance(self.instance)["chip"]

    @property
    def core(self):
        """The generation of its core: chips of one have the same."""
        from trine.estimate.calibration import core_of

        return core_of(self.chip)


def load(path=None):
    """The content of a file of rows; without a path, of the one that comes with Trine."""
    text = Path(path).read_text() if path else _core.accuracy_file("measurements.json")
    content = json.loads(text)
    if not isinstance(content, dict) or not set(content) & {"models", "kernels", "collectives"}:
        raise ValueError(f'{path}: expected an object with "models", "kernels" or "collectives", as in measurements.json')
    return content


def cases(content):
    """All cases of a file's content, in its order."""
    from trine.accuracy import machine

    return [*models(content.get("models", [])), *machine.collectives(content.get("collectives", [])), *machine.kernels(content.get("kernels", []))]


def models(rows):
    grouped = {}
    for row in rows:
        grouped.setdefault((row.get("case", row["id"]), row.get("phase", "forward")), []).append(row)
    parts = {case: {phase: rs[0] for (c, phase), rs in grouped.items() if c == case} for case, _ in grouped}
    return [model_case(case, phase, rs, parts[case]) for (case, phase), rs in grouped.items()]


def model_case(case, phase, rows, phases):
    """`phases`: a row of each phase of the case."""
    from trine.accuracy.machine import role

    row, measured = rows[0], {r["metric"]: r["value"] for r in rows}
    common = {"rows": len(rows), "source": row.get("source", ""), "note": row.get("note", ""), "measured": measured, "role": role(f"{case} {phase}")}
    config, instance = row.get("config") or {}, row.get("instance", "")
    group = f"{config.get('model_type', row.get('model', case))} {config.get('hidden_size', config.get('dim', ''))}".strip()
    try:
        at = _core.instance(instance)
    except (ValueError, RuntimeError):
        return Case(f"{case} {phase}", "unknown", group, "trn1.32xlarge", {}, time_ms=None, skip=f'no instance "{instance}"', **common)
    ask = asked(row, phase, config)
    kind = class_of(row, phase, config, ask)
    if why := out_of_range(at["chip"]):
        return Case(f"{case} {phase}", kind, group, instance, ask, time_ms=None, skip=why, **common)
    time, why = time_of(row, phase, measured, ask, at)
    return Case(f"{case} {phase}", kind, group, instance, ask, time_ms=time, skip=why, **common)


def asked(row, phase, config):
    """The arguments of estimate()."""
    config = spelled(config)
    ask = {"config": config, "batch": row.get("batch", 1), "instance": row["instance"], "tp": row.get("tp") or 1}
    if row.get("lnc"):
        ask["lnc"] = row["lnc"]
    if row.get("sdk_version"):
        ask["sdk"] = row["sdk_version"]
    if phase == "train":
        return ask | training(row)
    if row.get("family") == "decoder_forward":
        ask["config"] = config | BARE
    ask["dtype"] = DTYPES.get(row.get("dtype", ""), "bfloat16")
    if "matmult" in str(row.get("auto_cast", "matmult")).lower() and ask["dtype"] == "float32":  # not printed: as the compiler did until 2.26
        ask["auto_cast"] = "matmult"
    seq, new = row.get("seq_in"), row.get("seq_out") or 0
    if phase == "prefill" and (padded := re.search(r"context bucket (\d+)", row.get("note", ""))):
        seq = int(padded[1])
    if image := re.match(r"\d+", str(row.get("image_size", ""))):
        ask["image"] = int(image[0])
    seq = config.get("samples", seq)  # of sound, of which a row counts frames
    if row.get("family") == "device_profile":
        return ask | {"phase": phase, "seq": seq}
    if phase in ("decode", "generate"):
        return ask | {"phase": "decode", "seq": seq, "new_tokens": new}
    writes = row.get("family") == "llm" or ask["tp"] > 1 and family_kind(row, config) == "decoder"
    return ask | {"phase": "prefill" if phase == "prefill" and writes else "forward", "seq": seq}


def spelled(config):
    """A row's configuration with the names that its family's files have: rows call sizes alike in all of them, an MLP's is
    what it has, and of layers of two kinds they have the count."""
    from trine.models.encoder_rows import PERCEIVERS

    config = {other: config[name] for name, others in SPELLINGS.items() for other in others if name in config} | config
    if config.get("model_type") == "perceiver" and "image_size" in config:
        kinds = {width: kind for kind, (_, width) in PERCEIVERS.items()}  # the width of what it sees tells how it does
        config = {"architectures": [kinds.get(config.get("d_model"), "PerceiverForImageClassification")]} | config
    if config.get("model_type") == "lfm2" and "num_attention_layers" in config:
        each = config["num_hidden_layers"] / config["num_attention_layers"]
        seen = [int(each * (i + 0.5)) for i in range(config["num_attention_layers"])]
        config |= {"block_auto_adjust_ff_dim": False, "full_attn_idxs": seen}
    return config


def training(row):
    feature, dtype = str(row.get("feature", "")), str(row.get("dtype", ""))
    micro = re.search(r"microbatch (\d+)", feature)
    ask = {"phase": "train", "batch": int(micro[1]) if micro else 1, "seq": row.get("seq_in"), "nodes": row.get("nodes"), "pp": row.get("pp") or 1,
           "dp": row.get("dp"), "global_batch": row.get("batch"), "dtype": "float32" if dtype.upper() == "FP32" else "bfloat16"}  # fmt: skip
    return {k: v for k, v in ask.items() if v is not None}


def class_of(row, phase, config, ask):
    """The class that a row's program belongs to; a page has one line for each."""
    from trine.estimate.calibration import kind_of

    if phase == "generate":
        return "generation"
    return kind_of(family_kind(row, config), ask["phase"], ask["batch"], ask.get("seq") or 0)


def family_kind(row, config):
    """What kind of model it is: as the zoo has it, else by the row's own word."""
    from trine.models.families import ConfigError, family_of

    try:
        return family_of(config).kind
    except ConfigError:
        return ZOO_LACKS.get(row.get("family", ""), "decoder")


def time_of(row, phase, measured, ask, at):
    """(the time of one call or step in ms, "") or (None, why not).

    A latency that holds waiting is told by its own note: the service time is what a core was busy. Where that is less than
    the datasheet's peak allows, the throughput does not belong to the latency, which then is one call's."""
    if phase == "train":
        rate = measured.get("throughput")
        return (1e3 * row["batch"] / rate, "") if rate else (None, "no throughput")
    if phase == "generate":
        rate = measured.get("output_throughput") or measured.get("throughput")
        if "queueing" in row.get("note", ""):
            return None, "its tokens per second hold queueing"
        return (1e3 * row["batch"] * row["seq_out"] / rate, "") if rate else (None, "no throughput")
    given = next((measured[m] for m in ("device_time_derived", *SERVED, "latency_p50", "latency_mean") if m in measured), None)
    if given is None:
        return None, "no time was published"
    service = row.get("service_ms")
    if service and service * row.get("tp", 1) >= 1e3 * least_seconds(row, at):
        return service, ""
    return given, ""


def least_seconds(row, at):
    """Of one core at the datasheet's bf16 peak, for two operations for each parameter and token."""
    chip = _core.chip(at["chip"])
    peak = 2 * chip["tensor.rows"] * chip["tensor.columns"] * chip["tensor.clock_ghz"] * 1e9
    c = row.get("config") or {}
    width, layers = c.get("hidden_size", 0), c.get("num_hidden_layers", 0)
    return 2 * layers * width * (4 * width + 2 * c.get("intermediate_size", 0)) * row.get("seq_in", 0) * row["batch"] / peak


def in_flight(row, at):
    """Cores that worked at once, by the requests that were in flight."""
    cores = at["cores"] // (row.get("tp") or 1)
    return max(1, min(cores, math.floor(row.get("implied_inflight", cores) + 0.5)))

"""`trine estimate` of published configurations of every kind of family: it answers with memory, time and cost that add up.

Layers are as published; batch and length are small, so that a core's program is compiled in seconds.
"""

import json
import subprocess

import pytest

# configuration, phase, length, instance, cores
FAST = [
    ("gemma-2-2b", "decode", 128, "trn2.48xlarge", 4),
    ("gpt-oss-20b", "decode", 128, "trn2.48xlarge", 8),
    ("lfm2-1.2b", "decode", 128, "trn1.32xlarge", 2),
    ("mamba-130m", "decode", 16, "trn1.2xlarge", 1),
    ("bart-large", "decode", 64, "trn1.2xlarge", 1),
    ("modernbert-base", "forward", 64, "inf2.xlarge", 1),
]
SLOW = [
    ("gemma-2-9b", "decode", 1024, "trn2.48xlarge", 8),
    ("gemma-3-1b", "prefill", 128, "trn1.2xlarge", 1),
    ("gemma-3-4b", "prefill", 300, "trn2.48xlarge", 4),
    ("qwen3-30b-a3b", "decode", 512, "trn2.48xlarge", 8),
    ("qwen1.5-moe-a2.7b", "decode", 128, "trn1.32xlarge", 8),
    ("deepseek-v3", "decode", 512, "trn2.48xlarge", 64),
    ("deepseek-v2-lite", "prefill", 128, "trn1.32xlarge", 8),
    ("gpt-oss-20b", "prefill", 128, "trn2.48xlarge", 8),
    ("granite-3.1-8b", "decode", 512, "trn1.32xlarge", 8),
    ("phi-3.5-moe", "decode", 128, "trn1.32xlarge", 32),
    ("command-r", "decode", 512, "trn1.32xlarge", 32),
    ("glm-4-9b", "decode", 512, "trn1.32xlarge", 8),
    ("smollm3-3b", "decode", 512, "trn1.32xlarge", 4),
    ("gpt-j-6b", "decode", 256, "trn1.32xlarge", 8),
    ("gpt-neo-1.3b", "decode", 256, "trn1.2xlarge", 2),
    ("bloom-560m", "decode", 256, "trn1.2xlarge", 1),
    ("mpt-7b", "decode", 256, "trn1.32xlarge", 8),
    ("megatron-gpt-126m", "train", 128, "trn1.2xlarge", 1),
    ("xlm-roberta-base", "forward", 128, "inf2.xlarge", 1),
    ("deberta-v3-base", "forward", 128, "inf2.xlarge", 1),
    ("deberta-base", "forward", 128, "inf2.xlarge", 1),
    ("whisper-large-v3", "forward", 64, "inf2.xlarge", 1),
    ("wav2vec2-base", "forward", 16000, "inf2.xlarge", 1),
    ("vgg-16", "forward", None, "inf2.xlarge", 1),
    ("efficientnet-b0", "forward", None, "inf2.xlarge", 1),
    ("convnext-tiny", "forward", None, "inf2.xlarge", 1),
    ("swin-tiny", "forward", None, "inf2.xlarge", 1),
    ("dinov2-base", "forward", None, "inf2.xlarge", 1),
    ("perceiver-language", "forward", 2048, "inf2.xlarge", 1),
    ("dit-xl-2", "forward", None, "trn1.2xlarge", 1),
    ("sd3-medium", "forward", None, "trn1.32xlarge", 4),
    ("flux-dev", "forward", None, "trn1.32xlarge", 8),
    ("sd-vae", "forward", None, "trn1.2xlarge", 1),
    ("llava-1.5-7b", "prefill", None, "trn1.32xlarge", 8),
    ("qwen2-vl-7b", "prefill", None, "trn1.32xlarge", 8),
    ("qwen2.5-vl-7b", "decode", 512, "trn1.32xlarge", 8),
]

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# What all cores hold beside one copy of the parameters: keys repeated, vocabularies filled up, narrow projections of latent
# attention on every core. By far the most has DeepSeek-V3 on 128 physical cores.
REPEATED = {"deepseek-v3": 1.3, "deepseek-v2-lite": 1.3, "phi-3.5-moe": 1.3}


def estimated(name, phase, length, instance, cores):
    words = ["--config", name, "--phase", phase, "--instance", instance, "--tp", str(cores), "--json"]
    done = subprocess.run(["trine", "estimate", *words, *(["--seq", str(length)] if length else [])], capture_output=True, text=True, timeout=600,
        check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(name, phase, length, instance, cores):
    from trine import models

    d, model = estimated(name, phase, length, instance, cores), models.build(name)
    t, memory = d["latency_ms"], d["memory_bytes_per_core"]
    assert 0 < t["low"] < t["p50"] < t["high"] and t["achievable"] == pytest.approx(t["device"] + t["collectives"] + t["launch"])
    assert d["throughput_per_s"] > 0 and d["cost"] and d["flops"] > 0 and d["on_host"] == []
    assert memory["fits"] and memory["used"] >= memory["weights"]
    whole = model.parameters_count() * BYTES[d["dtype"]]
    if model.storage:
        assert d["weights"] == f"{model.storage.kind} ({model.storage.method})" and memory["weights"] * cores < 0.75 * whole
    else:
        assert whole <= memory["weights"] * cores * 1.001 and memory["weights"] * cores <= REPEATED.get(name, 1.15) * whole
    rows = d["by_layer"]
    assert sum(row["ms"] for row in rows) == pytest.approx(t["device"] + t["collectives"], rel=0.12, abs=0.05)
    layers = {row["layer"] for row in rows if "layer " in row["layer"]}
    if hasattr(model.settings, "layers") and model.family.kind in ("decoder", "encoder", "vit"):
        assert {f"layer {i}" for i in range(model.settings.layers)} <= {name.removesuffix(" (backward)") for name in layers}


@pytest.mark.parametrize("row", FAST, ids=lambda row: row[0])
def test_published(row):
    check(*row)


@pytest.mark.slow
@pytest.mark.parametrize("row", SLOW, ids=lambda row: f"{row[0]} {row[1]}")
def test_published_and_larger(row):
    check(*row)


MIXED = {"model_type": "gemma3_text", "vocab_size": 256, "hidden_size": 128, "num_hidden_layers": 18, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32,
         "intermediate_size": 256, "max_position_embeddings": 128, "sliding_window": 32}  # fmt: skip


def test_layers_of_two_kinds_are_as_few_of_each(monkeypatch):
    """Fifteen layers with a window and three without: all of them, and what follows from a few of each kind."""
    from trine.estimate import estimate, program

    found = []
    for long in (10**9, 0):
        monkeypatch.setattr(program, "LONG", long)
        found.append(estimate(MIXED, phase="decode", seq=64, tp=2, instance="trn1.2xlarge", dtype="bfloat16"))
    whole, few = found
    assert few.device_ms == pytest.approx(whole.device_ms, rel=0.1)
    assert few.collectives_ms == pytest.approx(whole.collectives_ms)
    assert few.report["flops"] == pytest.approx(whole.report["flops"], rel=0.01)
    for what in ("weights", "cache"):
        assert few.memory[what] == whole.memory[what]
    assert {row["layer"] for row in few.layers()} >= {f"layer {i}" for i in range(18)}


@pytest.mark.parametrize("block", [dict(load_in_8bit=True), dict(quant_method="fp8", weight_block_size=[128, 128]), dict(quant_method="mxfp4")],
                         ids=["int8", "fp8", "mxfp4"])  # fmt: skip
def test_weights_in_few_bits_are_read_in_few_bytes(block):
    """A decode step reads its weights once: fewer bytes where they are stored in fewer bits."""
    from trine.estimate import estimate

    wide = MIXED | {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 2}
    wide.pop("sliding_window")
    how = dict(phase="decode", seq=64, instance="trn2.3xlarge", dtype="bfloat16")
    whole, few = estimate(wide, **how), estimate(wide | {"quantization_config": block}, **how)
    assert few.memory["weights"] < (0.6 if "mxfp4" not in str(block) else 0.4) * whole.memory["weights"]
    assert few.report["hbm_read_bytes"] < 0.75 * whole.report["hbm_read_bytes"]
    assert few.main.on_host == []

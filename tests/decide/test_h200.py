"""The measured H200 file: every row has its facts, and a second run gives the same wherever the GPU is what bounds it."""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FIRST = json.loads((FOLDER.parent.parent / "python/trine/decide/baselines/h200.json").read_text())
AGAIN = json.loads((FOLDER / "h200_again.json").read_text())
ROWS = {r["row"]: r for r in FIRST["rows"]}


def test_rows_are_whole():
    measured = [r for r in FIRST["rows"] if r["ok"]]
    assert len(measured) >= 110
    for r in measured:
        assert r["latency_ms"]["p50"] <= r["latency_ms"]["p95"] <= r["latency_ms"]["p99"], r["row"]
        assert r["bound"] in ("host", "device", "host and device") and 0 < r["steady"]["watts"] < 760, r["row"]
    models = {r["model"] for r in measured}
    assert models == {"bert-base", "bert-large", "gpt2", "llama-3.2-1b", "llama-3-8b", "resnet50", "vit-base", "sd-unet"}
    assert FIRST["commands"] and FIRST["date"]


def test_a_second_run_is_within_ten_percent():
    """Rows that the host bounds move with its launches (by 16 % here) and say nothing of the GPU."""
    both = [(ROWS[r["row"]], r) for r in AGAIN["rows"] if r["ok"] and r["row"] in ROWS]
    bound = [(a, b) for a, b in both if "device" in a["bound"]]
    assert len(bound) >= 20
    for a, b in bound:
        for ratio in (b["latency_ms"]["p50"] / a["latency_ms"]["p50"], b["steady"]["items_per_s"] / a["steady"]["items_per_s"]):
            assert 0.9 < ratio < 1.1, (a["row"], ratio)

"""trine baseline: the file it writes stands alone, builds the models it names, and loses nothing when a row fails."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy
import pytest

from trine.decide.baseline.command import joined

pytest.importorskip("torch")
PARAMETERS = {  # as their papers' and Hugging Face's models have
    "bert-base": 109482240, "bert-large": 335141888, "gpt2": 124439808, "llama-3.2-1b": 1235814400,
    "llama-3-8b": 8030261248, "resnet50": 25557032, "vit-base": 86567656, "sd-unet": 859520964,
}  # fmt: skip


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("baseline") / "gpu_baseline.py"
    path.write_text(joined())
    return path


@pytest.fixture(scope="module")
def module(script):
    spec = importlib.util.spec_from_file_location("gpu_baseline", script)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def start(script, *options):
    """Runs the file as a GPU machine would: without Trine's packages or path."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    command = [sys.executable, str(script), "--device", "cpu", "--small", "--seconds", "0.02", *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=script.parent)


def test_names_nothing_of_trine(script):
    imports = [line for line in script.read_text().splitlines() if line.lstrip().startswith(("import ", "from "))]
    assert imports and not [line for line in imports if "trine" in line]


@pytest.mark.parametrize("model", PARAMETERS)
def test_models_have_the_published_parameters(module, model):
    import torch

    config = module.CONFIGS[model]
    with torch.device("meta"):
        made = module.CLASSES[config["kind"]](**config)
    assert sum(p.numel() for p in made.parameters()) == PARAMETERS[model]


def test_hashed_values_are_the_same_by_numpy(module):
    x = (numpy.arange(1000, dtype=numpy.int64) * 1103515245 + 7 * 12345 + 1) & 0x7FFFFFFF
    for factor, shift in ((0x2C1B3C6D, 15), (0x297A2D39, 12)):
        x = ((x ^ (x >> shift)) * factor) & 0x7FFFFFFF
    assert module.hashed(1000, 7, "cpu").tolist() == (x ^ (x >> 15)).tolist()


def test_every_workload_runs(module):
    class Asked:
        seconds, small, model = 0.001, True, None

    for workload in module.WORKLOADS:
        row = module.measure(module.job_of(module.workload_name(*workload) + "/f32/eager", Asked, "cpu"), module.Meter("cpu"))
        assert row["latency_ms"]["p50"] <= row["latency_ms"]["p99"] and row["steady"]["items_per_s"] > 0, workload
        assert all(numpy.isfinite(out["values"]).all() for out in row["outputs"]), workload
        assert row["flops_per_call"] > 0, workload


def test_a_failing_row_is_a_row_and_a_second_run_goes_on(script):
    out = script.parent / "two.json"
    rows = "^(gpt2/decode-b1-c512|resnet50/infer-b1)/f32/(eager|cuda-graph)$"
    first = start(script, "--out", str(out), "--rows", rows, "--budget", "0.001")
    assert first.returncode == 0, first.stderr
    report = json.loads(out.read_text())
    assert [r["row"] for r in report["rows"]] == ["gpt2/decode-b1-c512/f32/eager"] and len(report["not_run"]) == 3
    assert start(script, "--out", str(out), "--rows", rows).returncode == 0
    report = json.loads(out.read_text())
    by_row = {r["row"]: r for r in report["rows"]}
    assert len(by_row) == 4 and report["not_run"] == [] and len(report["commands"]) == 2
    assert report["rows"][0] == by_row["gpt2/decode-b1-c512/f32/eager"]  # not measured again
    failed = by_row["resnet50/infer-b1/f32/cuda-graph"]
    assert not failed["ok"] and failed["error"]
    assert report["machine"]["torch"] and report["machine"]["device"] == "cpu" and len(report["script_sha256"]) == 64
    listed = by_row["resnet50/infer-b1/f32/eager"]["outputs"][0]
    with numpy.load(out.with_suffix(".npz")) as arrays:
        assert arrays[listed["array"]].shape == (10,) and listed["shape"] == [1, 10]


def test_a_model_of_ones_own(script):
    mine = script.parent / "mine.py"
    mine.write_text("import torch\ndef make():\n    return torch.nn.Linear(8, 4), (torch.ones(2, 8),)\n")
    out = script.parent / "mine.json"
    done = start(script, "--out", str(out), "--model", f"{mine}:make")
    assert done.returncode == 0, done.stderr
    eager = json.loads(out.read_text())["rows"][0]
    assert eager["row"] == "mine/call/given/eager" and eager["ok"] and eager["weight_bytes"] == 4 * (32 + 4)


def test_no_row_matches(script):
    done = start(script, "--rows", "nothing")
    assert done.returncode == 2 and "no row matches 'nothing'; --list shows them" in done.stdout

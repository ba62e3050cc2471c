"""`trine migrate`: from a CUDA project to a report; killed at any piece it goes on there; bad files are named."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from trine.decide.migrate import project, state, steps
from trine.command import Stop

ROOT = Path(__file__).resolve().parents[2]
TRINE = str(ROOT / "build/trine")
SMALL = """
[project]
model = "infer:build"
inputs = "2x3x16x16"
[traffic]
items_per_day = 50_000_000
p99_ms = 50
[try]
instances = ["inf2.xlarge", "trn1.2xlarge"]
batches = [2]
precisions = ["bf16"]
"""


@pytest.fixture
def moved(tmp_path):
    """The example's inference project in a folder of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples/migrate/infer.py", folder)
    (folder / "move.toml").write_text(SMALL)
    return folder


def migrate(folder, *more):
    return subprocess.run([TRINE, "migrate", "move.toml", *more], cwd=folder, capture_output=True, text=True, timeout=600)


def test_from_a_project_to_a_report(moved):
    before = (moved / "infer.py").read_text()
    done = migrate(moved, "--json")
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert (moved / "infer.py").read_text() == before, "the project itself is never written"
    ported = (moved / "move.migration/ported/infer.py").read_text()
    assert "torch.cuda" not in ported and "neuron" in ported
    assert out["validate"]["holds"] and out["port"]["ops_on_cpu"] == []
    best = out["evaluate"]["recommended"]
    assert best["instance"] in ("inf2.xlarge", "trn1.2xlarge")
    cheapest = min(out["evaluate"]["tco"]["rows"], key=lambda r: r["total_usd"]["likely"])
    page = (moved / "move.migration/report.html").read_text()
    assert best["instance"] in page and ("Move:" in page) == (cheapest["basis_kind"] == "modelled")
    assert "http://" not in page.replace("http://www.w3.org", "")
    # What follows from the rows by hand: items a second, and dollars for a million of them.
    assert best["items_per_s"][1] == pytest.approx(best["cores"] * best["batch"] / (best["call_ms"] * 1e-3))
    price = out["evaluate"]["prices"][best["instance"]]["usd_per_hour"]
    assert best["usd_per_million"] == pytest.approx(price / 3600 / best["items_per_s"][1] * 1e6)
    again = migrate(moved)
    assert again.returncode == 0 and again.stderr.count("as before") == 6, again.stderr
    held = json.loads((moved / "move.migration/state.json").read_text())["pieces"]
    (moved / "move.toml").write_text(SMALL.replace("p99_ms = 50", "p99_ms = 40"))
    other = migrate(moved)
    assert other.returncode == 0 and "port       as before" in other.stderr and "pick       as before" not in other.stderr
    kept = json.loads((moved / "move.migration/state.json").read_text())["pieces"]
    assert all(kept[name] == held[name] for name in held if name.startswith("cell")), "timed cells are not timed again"


@pytest.mark.slow
def test_killed_at_any_piece_it_goes_on(moved):
    whole = moved.parent / "whole"
    shutil.copytree(moved, whole)
    assert migrate(whole).returncode == 0
    wanted = json.loads((whole / "move.migration/report.json").read_text())
    pieces = len(json.loads((whole / "move.migration/state.json").read_text())["pieces"])
    path, seen = moved / "move.migration/state.json", 0
    for _ in range(2 * pieces):
        run = subprocess.Popen([TRINE, "migrate", "move.toml"], cwd=moved, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while run.poll() is None:
            count = len(json.loads(path.read_text())["pieces"]) if path.exists() else 0
            if count > seen:
                seen = count
                break
            time.sleep(0.02)
        if run.poll() is not None:
            break
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert migrate(moved).returncode == 0
    found = json.loads((moved / "move.migration/report.json").read_text())
    assert found["evaluate"]["recommended"] == wanted["evaluate"]["recommended"]


BAD = {
    "no TOML": "[project",
    "[traffik]": "[traffik]\nx = 1",
    "no model in [project]": '[project]\ninputs = "2x3"\n[traffic]\nitems_per_day = 1',
    "colour in [project]": '[project]\ncolour = "red"',
    "items_per_day = 'many'": '[project]\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = "many"',
    "precision 'f4'": '[project]\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = 1\n[try]\nprecisions = ["f4"]',
    "a batch of 0": '[project]\nmodel = "a:b"\ninputs = "0x3"\n[traffic]\nitems_per_day = 1',
    "inputs = 'wide'": '[project]\nmodel = "a:b"\ninputs = "wide"\n[traffic]\nitems_per_day = 1',
    "model and config in [project]": '[project]\nconfig = "gpt2"\nmodel = "a:b"\n[traffic]\nitems_per_day = 1',
    "train and config in [project]": '[project]\nconfig = "gpt2"\ntrain = true\n[traffic]\nitems_per_day = 1',
    "row in [baseline]": '[project]\nconfig = "gpt2"\n[traffic]\nitems_per_day = 1\n[baseline]\nrow = "x"',
    "tp in [try]": '[project]\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = 1\n[try]\ntp = [2]',
    "contexts = [1]": '[project]\nconfig = "gpt2"\n[traffic]\nitems_per_day = 1\n[try]\ncontexts = [1]',
    "instances = []": '[project]\nconfig = "gpt2"\n[traffic]\nitems_per_day = 1\n[try]\ninstances = []',
    "path = 'nowhere'": '[project]\npath = "nowhere"\nmodel = "a:b"\ninputs = "2x3"\n[traffic]\nitems_per_day = 1',
}


@pytest.mark.parametrize("found", BAD)
def test_a_bad_file_is_named(tmp_path, found):
    file = tmp_path / "bad.toml"
    file.write_text(BAD[found])
    with pytest.raises(Stop) as stop:
        project.read(file)
    assert f"found {found}" in str(stop.value) and "expected" in str(stop.value)


def test_batches_are_put_into_inputs(tmp_path):
    (tmp_path / "a.toml").write_text('[project]\nmodel = "a:b"\ninputs = "8x128:int64,mask=8x128:bool,table=3x8"\n[traffic]\nitems_per_day = 1')
    read = project.read(tmp_path / "a.toml")
    assert read.inputs_of(2) == "2x128:int64,mask=2x128:bool,table=3x8"
    assert read.trial["batches"] == [2, 8, 32]


def test_bytes_are_no_toml(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"[project]\xff")
    with pytest.raises(Stop) as stop:
        project.read(tmp_path / "bad.toml")
    assert stop.value.code == 2 and "found a byte that no UTF-8 has at 9" in str(stop.value)


def test_what_cannot_be_copied_is_left(tmp_path):
    """Pipes, links in a circle, and a file of a gigabyte: the copy has the rest, and nothing is followed or filled."""
    root = tmp_path / "app"
    root.mkdir()
    (root / "a.py").write_text("import torch\n")
    os.mkfifo(root / "pipe")
    os.symlink(root, root / "round")
    with open(root / "weights.bin", "wb") as f:
        f.truncate(1 << 30)
    (tmp_path / "move.toml").write_text('[project]\npath = "app"\nconfig = "gpt2"\n[traffic]\nitems_per_day = 1\n')
    run = steps.Run(project.read(tmp_path / "move.toml"), state.State(tmp_path / "out"), None)
    left = steps.copied(run)
    assert [name for name, _ in left] == ["pipe"] and sorted(os.listdir(run.ported)) == ["a.py", "weights.bin"]
    assert (run.ported / "weights.bin").is_symlink() and (root / "weights.bin").stat().st_blocks == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "pieces": []}', '{"version": 9, "pieces": {}}', '{"version": 1, "pieces": {"pick": 3}}'])
def test_any_state_file_is_read(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    assert state.State(tmp_path).get("pick", "k") is None


def test_the_reports_folder_is_not_the_projects(moved):
    done = migrate(moved, "-o", ".")
    assert done.returncode == 2 and "in which the project itself lies" in done.stderr and not (moved / "state.json").exists()


def test_a_damaged_state_is_done_again(tmp_path):
    (tmp_path / "state.json").write_text("{")
    held = state.State(tmp_path)
    assert "cannot be read" in held.trouble
    held.put("pick", "k", {"a": 1}, 0.1)
    assert state.State(tmp_path).get("pick", "k") == {"a": 1} and state.State(tmp_path).get("pick", "other") is None


DECODER = """[project]
path = "app"
config = "tiny.json"
[traffic]
items_per_day = 100_000_000
prompt = 24
output = 8
[try]
instances = ["inf2.xlarge", "trn1.2xlarge"]
batches = [2]
contexts = [16, 32, 64]
tp = [1, 2]
"""
TINY = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 64, "_name_or_path": "tiny"}


@pytest.fixture
def decoding(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "serve.py").write_text('import torch\nmodel = torch.nn.Linear(2, 2).cuda()\nprint(model.weight.to("cuda").sum())\n')
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    (tmp_path / "move.toml").write_text(DECODER)
    return tmp_path


def test_what_is_tried_of_a_decoder(decoding):
    from trine.decide.migrate import decoder

    read = project.read(decoding / "move.toml")
    config = decoder.loaded(read)
    tried = decoder.cells(read, config)
    assert len(tried) == 2 * 1 * 1 * 2 * 3 and tried[0] == ("inf2.xlarge", "bf16", 2, 1, 16) and read.unit == "tokens"
    (decoding / "move.toml").write_text(DECODER.split("[try]")[0])
    usual = project.read(decoding / "move.toml")
    assert (usual.trial["contexts"], usual.trial["batches"], usual.trial["precisions"]) == ([32, 128], [8, 32], ["bf16"])
    assert decoder.shares(usual, config, "trn1.2xlarge", "bf16") == [1, 2]  # all that the instance has
    (decoding / "move.toml").write_text(DECODER.replace("tiny.json", "bert-base"))
    with pytest.raises(Stop) as stop:
        decoder.loaded(project.read(decoding / "move.toml"))
    assert "expected a decoder" in str(stop.value)


def test_a_decoders_row_follows_by_hand(decoding):
    from trine.decide.migrate import decoder

    read = project.read(decoding / "move.toml")
    decode = {"ms": 2.0, "low": 1.5, "high": 3.0, "p99": 2.2, "copies": 4, "cores": 2, "bound": "dma", "collectives_ms": 0.5, "used_bytes": 1, "room_bytes": 2, "cases": 8}
    prefill = decode | {"ms": 10.0, "low": 8.0, "high": 12.0}
    row = decoder.joined(read, ("trn1.32xlarge", "bf16", 2, 2, 32), prefill, decode)
    seconds = 2 * 10e-3 + 8 * 2e-3  # two prompts one after another, then eight steps, write 16 tokens
    assert row["items_per_s"][1] == pytest.approx(4 * 16 / seconds) and row["cores"] == 8 and row["first_token_ms"] == 10.0
    assert row["items_per_s"][0] < row["items_per_s"][1] < row["items_per_s"][2]
    assert decoder.why_not(row | {"context": 16}, read.traffic) == "a window of 16 tokens, a request has 32"
    assert "over the 2 ms asked for" in decoder.why_not(row, read.traffic | {"p99_ms": 2}) and not decoder.why_not(row, read.traffic)
    assert "first token after 10 ms" in decoder.why_not(row, read.traffic | {"first_token_ms": 9})
    assert decoder.joined(read, ("a", "bf16", 2, 2, 32), prefill, {"why_not": "no room"})["why_not"] == "no room"


@pytest.mark.slow
def test_a_decoder_over_cores_and_windows(decoding):
    done = migrate(decoding)
    assert done.returncode == 0, done.stderr
    out = json.loads((decoding / "move.migration/report.json").read_text())
    found, best = out["evaluate"], out["evaluate"]["recommended"]
    assert len(found["cells"]) == 12 and best["context"] == 32 and out["validate"]["holds"] is True
    assert {c["why_not"] for c in found["cells"] if c["context"] == 16} == {"a window of 16 tokens, a request has 32"}
    assert found["runner_up"]["instance"] != best["instance"] and found["runner_up_flips"]
    assert [w["context"] for w in found["windows"]] == [32, 64]
    assert {tuple(c[n] != best[n] for n in ("tp", "context")) for c in found["beside"]} == {(True, False), (False, True)}
    for name in ("report.html", "report.md"):
        text = (decoding / "move.migration" / name).read_text()
        assert "a window of 64 tokens" in text and "beside the runner-up" in text and f"tp {best['tp']}" in text
    again = migrate(decoding)
    assert again.returncode == 0 and again.stderr.count("as before") == 6, again.stderr
    (decoding / "move.toml").write_text(DECODER.replace("tp = [1, 2]", "tp = [1]"))
    fewer = migrate(decoding)
    assert fewer.returncode == 0 and "timing" not in fewer.stderr, "what was timed is not timed again"

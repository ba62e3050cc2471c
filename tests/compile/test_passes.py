"""Every pass has its text test: at least three cases that explain it and one that it leaves alone; and what the command says
of passes comes from their tables."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from text_lines import parse

FOLDER = Path(__file__).resolve().parent
# Rows whose cases lie elsewhere, and why.
ELSEWHERE = {
    "import": "it only shows what the front-ends' own tests judge",
}
GRAPH = 'graph "g" (%0: f32[4,8]) {\n  %1 = negate %0 : f32[4,8]\n  return %1\n}\n'


@pytest.fixture(scope="module")
def rows(request):
    return json.loads(command(request.config.trine, "--list-passes", "--json").stdout)["passes"]


def command(trine, *words, code=0, **rest):
    done = subprocess.run([trine, "compile", *words], capture_output=True, text=True, **rest)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_every_pass_has_its_cases(rows):
    for row in rows:
        if row["pass"] in ELSEWHERE:
            continue
        path = FOLDER / f"{row['pass'].replace('-', '_')}.test"
        assert path.exists(), f"pass {row['pass']} has no {path.name}"
        lines = parse(path.read_text())
        assert len(lines) >= 4 and all(line.words[-1] == row["pass"] or row["pass"] in line.words for line in lines), path.name
        assert all(line.title for line in lines), f"{path.name}: a case without a line that says why"
        alone = [line for line in lines if line.verb == "same" or any(w in line.title for w in ("left", "nothing", "only", "not ", "stay", "apart", "none"))]
        assert alone, f"{path.name}: no case that the pass leaves alone"


def test_no_test_is_of_a_pass_that_is_not_there(rows):
    names = {row["pass"].replace("-", "_") for row in rows}
    assert {p.stem for p in FOLDER.glob("*.test")} <= names


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "g.stablehlo"
    path.write_text("module @g {\n  func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {\n    %0 = stablehlo.negate %arg0 : tensor<4x8xf32>\n    return %0 : tensor<4x8xf32>\n  }\n}\n")
    return path


def test_each_pass_is_printed_timed_and_stopped_after(model, trine, tmp_path):
    everything = command(trine, model, "--print-after", "all", "-o", tmp_path / "g.trn").stdout
    seen = re.findall(r"# after (\w+ pass [\w-]+)", everything)
    assert everything.count("# after ") == len(re.findall(r"(?m)^# after ", everything)), "a form that does not end its line"
    assert seen[0] == "graph pass import" and seen[-1] == "stream pass semaphores" and "device pass lower" in seen
    timed = json.loads(command(trine, model, "--time-passes", "--json", "-o", tmp_path / "g.trn").stdout)["passes"]
    assert [f"{t['pipeline']} pass {t['pass']}" for t in timed] == seen
    assert all(t["seconds"] >= 0 and t["sizes"] for t in timed)
    for one in ("narrow-words", "spread-partitions", "versions"):
        stopped = json.loads(command(trine, model, "--time-passes", "--json", "--stop-after", one).stdout)["passes"]
        assert stopped[-1]["pass"] == one
    table = command(trine, model, "--time-passes", "--verify-each", "-o", tmp_path / "g.trn").stdout
    assert "semaphores" in table and "instructions" in table and "share" in table


def test_the_way_to_the_host_is_seen_too(model, trine):
    text = command(trine, model, "--host", "--print-after", "plan-memory", "--print-after", "fuse-host").stdout
    assert "# after host pass fuse-host\nf32[4,8] = negate\n" in text and "1 steps on the host" in text
    assert command(trine, model, "--host", "--stop-after", "fuse-host", "--print-after", "fuse-host").stdout == "f32[4,8] = negate\n"


def test_passes_that_are_not_there_are_refused_with_the_nearest(model, trine):
    assert "no pass is named simplfy; near: simplify" in command(trine, model, "--print-after", "simplfy", code=2).stderr
    assert "stop after one pass" in command(trine, model, "--stop-after", "all", code=2).stderr
    assert "no pass is named fuze" in command(trine, "--run-pass", "fuze", "-", code=2, input=GRAPH).stderr


def test_a_text_that_is_not_well_formed_is_refused(trine):
    bad = GRAPH.replace("negate %0 : f32[4,8]", "negate %0 : f32[4,9]")
    assert "the input is not well formed" in command(trine, "--run-pass", "simplify", "-", code=3, input=bad).stderr

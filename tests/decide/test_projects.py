"""The audit over real projects from PyPI: `make test-audit` downloads them. Labels of labels.tsv were given by reading the lines."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import projects  # noqa: E402

from trine.decide import audit  # noqa: E402
from trine.decide.audit import fix, project  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.environ.get("TRINE_TEST_AUDIT"), reason="downloads projects: make test-audit")]
HERE = Path(__file__).parent
ROOT = HERE.resolve().parents[1]
NAMES = [f"{name}-{version}" for name, version, _, _ in projects.listed()]
SECONDS = 10  # of CPU time for 100,000 lines
PROGRAMS = {"efficientnet_pytorch-0.7.1": 4, "linformer-0.2.3": 4, "pytorch_pretrained_bert-0.6.2": 8, "reformer_pytorch-1.4.4": 3, "vector_quantize_pytorch-1.32.0": 10}


@functools.cache
def own_names(name):
    return project.own_names(project.files_of(str(projects.FOLDER / name))[0])


@functools.cache
def lines_found(name, file):
    """Lines of a file in which the audit of its project finds something."""
    path = projects.FOLDER / name / file
    text, _ = project.text_of(project.File(str(path), file, project.kind_of(file), path.stat().st_size))
    return {f.line for f in audit.findings_of(text, file, project.kind_of(file), own_names(name))} if project.kind_of(file) else set()


@pytest.mark.parametrize("name", NAMES)
def test_a_project_is_read_and_its_patches_compile(name):
    began = time.process_time()
    found = audit.audit(str(projects.FOLDER / name))
    seconds = time.process_time() - began
    assert found.files and seconds < max(1.5, SECONDS * found.lines / 1e5), f"{found.lines:,} lines took {seconds:.1f} s"
    for file, before, after in audit.patches(found):
        assert file.kind != "python" or fix.compiles(after, file.name) or not fix.compiles(before, file.name)


def rows():
    return [line.split("\t") for line in (HERE / "labels.tsv").read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("draw", ["first", "held out", "all"])
def test_labelled_lines(draw):
    right, extra, missed = 0, [], []
    for name, file, line, label, of, digest in rows():
        if draw not in ("all", of):
            continue
        text = (projects.FOLDER / name / file).read_text().split("\n")[int(line) - 1].strip()
        assert hashlib.sha256(text.encode()).hexdigest()[:10] == digest, f"{name}/{file}:{line} is another line"
        is_found = int(line) in lines_found(name, file)
        if is_found and label == "cuda":
            right += 1
        elif is_found:
            extra.append(f"{name}/{file}:{line}  {text[:80]}")
        elif label == "cuda":
            missed.append(f"{name}/{file}:{line}  {text[:80]}")
    precision, recall = right / (right + len(extra)), right / (right + len(missed))
    print(f"{draw}: precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.95 and recall >= 0.95, "\n".join(["found, not CUDA:", *extra, "CUDA, not found:", *missed])


def test_there_are_enough_labels():
    labels = [r[3] for r in rows()]
    assert len(labels) >= 300 and labels.count("cuda") >= 100 and labels.count("none") >= 100 and len(NAMES) >= 25


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_patched_project_runs_on_neuron(name, tmp_path):
    shutil.copytree(projects.FOLDER / name, tmp_path, dirs_exist_ok=True)
    program = tmp_path / "program_of_ours.py"
    shutil.copy(HERE / f"programs/{name.rpartition('-')[0]}.py", program)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{projects.FOLDER / 'needs'}:{ROOT / 'python'}"}
    before = subprocess.run([sys.executable, program], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert before.returncode != 0, "runs without a GPU as it is, so it shows nothing"
    written = subprocess.run(["trine", "audit", tmp_path, "--fix"], capture_output=True, text=True)
    assert written.stdout.startswith(f"{PROGRAMS[name]} places patched"), written.stdout + written.stderr
    after = subprocess.run([sys.executable, program], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert after.returncode == 0 and after.stdout.startswith("neuron:0"), after.stderr[-2000:]

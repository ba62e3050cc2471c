"""What may not be read or written: told, with its path, and nothing else is lost by it.

Root reads everything, so the commands run without the two capabilities by which it does (setpriv of util-linux).
"""

import json
import os
import shutil
import subprocess

import pytest

PLAIN = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
CUDA = 'import torch\nx = torch.zeros(1, device="cuda")\n'
TCO = ["tco", "--config", "bert-base", "--tokens-per-day", "1e6", "--machines", "trn1.32xlarge,p5.48xlarge", "--speeds", "speeds.json"]


@pytest.fixture
def run(trine, tmp_path):
    """Runs a command without root's rights in a folder with a project; (code, stdout, stderr)."""
    if PLAIN and (not shutil.which("setpriv") or subprocess.run([*PLAIN, "true"], capture_output=True).returncode):
        pytest.skip("root's rights cannot be dropped here")
    (tmp_path / "project/inner").mkdir(parents=True)
    for name in ("seen.py", "hidden.py", "inner/a.py"):
        (tmp_path / "project" / name).write_text(CUDA)
    (tmp_path / "speeds.json").write_text(json.dumps({"trn1.32xlarge": 9e3, "p5.48xlarge": 4e4}))
    (tmp_path / "f.py").write_text("def once():\n    pass\n")
    (tmp_path / "closed").mkdir()
    closed = []

    def of(*words, close=()):
        for name in close:
            path = tmp_path / name
            closed.append((path, path.stat().st_mode))
            path.chmod(0)
        done = subprocess.run([*PLAIN, trine, *words], capture_output=True, text=True, cwd=tmp_path)
        assert "internal error" not in done.stderr and "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    of.folder = tmp_path
    yield of
    for path, mode in reversed(closed):
        path.chmod(mode)


def test_audit_reads_the_rest(run):
    code, out, _ = run("audit", "project", "--json", close=["project/hidden.py", "project/inner"])
    report = json.loads(out)
    assert code == 0 and {f["file"] for f in report["findings"]} == {"seen.py"}
    assert {s["file"]: s["why"] for s in report["skipped"]} == {"hidden.py": "cannot be read: Permission denied", "inner": "cannot be read: Permission denied"}


def test_audit_of_a_folder_that_lists_and_lets_nobody_in(run):
    (run.folder / "project/inner").chmod(0o600)
    code, out, _ = run("audit", "project", "--json")
    assert code == 0 and [s["file"] for s in json.loads(out)["skipped"]] == ["inner/a.py"]
    (run.folder / "project/inner").chmod(0o700)


def test_audit_of_nothing_that_may_be_read(run):
    code, _, err = run("audit", "project", close=["project"])
    assert code == 3 and "Permission denied" in err and "found nothing to read" in err
    code, _, err = run("audit", "project/seen.py")
    assert code == 5 and "project/seen.py: Permission denied" in err


def test_audit_writes_what_it_may(run):
    (run.folder / "project/seen.py").chmod(0o444)
    code, out, err = run("audit", "project", "--fix")
    assert code == 5 and "seen.py: cannot be written: read-only" in err and "patched in 2 files" in out
    assert '"neuron"' in (run.folder / "project/hidden.py").read_text() and (run.folder / "project/seen.py").read_text() == CUDA


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["audit", "project", "--html", "closed/a.html"], "places depend on CUDA"),
        ([*TCO, "--html", "closed/a.html"], "trn1.32xlarge"),
        ([*TCO, "--xlsx", "closed/a.xlsx"], "trn1.32xlarge"),
        (["bench", "f.py:once", "--seconds", "0.01", "--rate", "50", "--burst", "2", "--html", "closed/a.html"], "one by one"),
    ],
    ids=["audit", "tco html", "tco xlsx", "bench"],
)
def test_a_page_that_cannot_be_written_costs_no_report(run, words, shown):
    code, out, err = run(*words, close=["closed"])
    assert code == 5 and shown in out and f"{words[-1]}: cannot be written: Permission denied" in err


@pytest.mark.parametrize(
    ("words", "close"),
    [
        ([*TCO, "--prices", "p.json"], "p.json"),
        ([*TCO, "--audit", "p.json"], "p.json"),
        ([*TCO, "--baseline", "p.json"], "p.json"),
        (["tco", "--config", "p.json", "--tokens-per-day", "1e6"], "p.json"),
        (["bench", "f.py:once"], "f.py"),
        (["bench", "--config", "p.json"], "p.json"),
        (["bench", "http://127.0.0.1:9/", "--body", "p.json"], "p.json"),
        (["decide", "--config", "llama-3-8b", "--bench", "p.json"], "p.json"),
        (["migrate", "p.toml"], "p.toml"),
        (["migrate", "m.toml", "-o", "closed/out"], "closed"),
    ],
    ids=lambda x: "-".join(x[:1] + x[-2:]) if isinstance(x, list) else x,
)
def test_an_input_that_may_not_be_read_is_named(run, words, close):
    for name in ("p.json", "p.toml"):
        (run.folder / name).write_text("{}")
    (run.folder / "m.toml").write_text('[project]\npath = "project"\nmodel = "seen:make"\ninputs = "2x2"\n[traffic]\nitems_per_day = 10\n')
    code, _, err = run(*words, close=[close])
    assert code in (2, 5) and close in err and "Permission denied" in err and "[Errno" not in err

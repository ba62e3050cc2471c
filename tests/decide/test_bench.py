"""trine bench: arrivals that do not wait, a queue that follows by hand, faults, fidelity, and bad input."""

import http.server
import json
import subprocess
import threading
import time

import numpy
import pytest

from trine.decide import bench_load as load
from trine.decide import bench_report


def bench(trine, folder, *options, code=0):
    done = subprocess.run([trine, "bench", *options], capture_output=True, text=True, cwd=folder)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def test_queue_by_hand():
    found = load.queue(numpy.array([0.0, 0.1, 0.2, 5.0]), copies=1, batch=2, service_s=1.0)
    assert found.tolist() == pytest.approx([1.0, 1.9, 1.8, 1.0])  # the second and third are one call, from 1 s to 2 s
    assert load.queue(numpy.array([0.0, 0.1, 0.2]), 3, 1, 1.0).tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_queue_is_that_of_theory():
    """One server, Poisson arrivals, fixed service: the mean wait is load * service / (2 * (1 - load))."""
    for share in (0.3, 0.7):
        times = load.arrivals(200_000, share, 3)
        wait = load.queue(times, 1, 1, 1.0) - 1.0
        assert wait.mean() == pytest.approx(share / (2 * (1 - share)), rel=0.03)


def test_faults_lose_what_is_in_flight_and_recover():
    times = load.arrivals(40_000, 100.0, 1)
    lost = load.queue(times, 4, 1, 0.02, [load.Fault(100.0, 130.0, {0, 1}, 0.0)])
    assert 1 <= numpy.isnan(lost).sum() <= 2
    after = load.recovery(times, lost, 100.0)
    assert 25 < after < 150
    assert load.recovery(times, load.queue(times, 4, 1, 0.02), 100.0) == 0.0
    slow = load.queue(times, 4, 1, 0.02, [load.Fault(100.0, 130.0, {0, 1, 2, 3}, 3.0)])
    assert not numpy.isnan(slow).any() and slow[(times > 100) & (times < 130)].mean() > 3 * slow[times < 100].mean()


def test_arrivals():
    gaps = numpy.diff(load.arrivals(100_000, 50.0, 0))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.02) and gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)
    bursty = numpy.diff(load.arrivals(100_000, 50.0, 0, variation=3.0))
    assert bursty.std() / bursty.mean() == pytest.approx(3, rel=0.05)


def test_no_coordinated_omission():
    """A server that stops for half a second: those that were due meanwhile have waited, though nobody was there to send them."""
    calls = []

    def call():
        calls.append(1)
        time.sleep(0.5 if len(calls) == 5 else 0.001)

    took, late, errors = load.run_open(call, [0.02 * i for i in range(20)], workers=1)
    assert not errors and sum(t > 0.2 for t in took) >= 8 and max(late) > 0.2
    assert sum(t > 0.2 for t in numpy.subtract(took, late)) == 1  # what a closed loop would have seen


def test_levels_need_enough_requests():
    few = load.summary(numpy.arange(1, 101) / 1000)
    assert few["p50_ms"] == 50 and few["p99_ms"] == 99 and few["p99.9_ms"] is None and few["count"] == 100
    assert few["p50_band_ms"][0] < 50 < few["p50_band_ms"][1]
    assert load.summary([float("nan")]) == {"count": 0}


@pytest.fixture
def function(tmp_path):
    (tmp_path / "infer.py").write_text("import numpy\ndef once():\n    return numpy.arange(4, dtype='f4')\ndef broken():\n    raise OSError('gone')\n")
    with open(tmp_path / "infer.py", "a") as f:
        f.write("def asks(x):\n    return x\n")
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "wrong.py").write_text("def once(:\n")
    numpy.savez(tmp_path / "same.npz", a=numpy.arange(4, dtype="f4"))
    numpy.savez(tmp_path / "other.npz", a=numpy.arange(4, dtype="f4") + 1)
    return tmp_path


def test_a_function_in_host_time(trine, function):
    report = json.loads(bench(trine, function, "infer.py:once", "--seconds", "0.1", "--reference", "same.npz", "--html", "b.html", "--json").stdout)
    assert "chip" not in report and report["host"]["time"] == "host"
    assert report["host"]["fidelity"][0] == {"shape": [4], "bit_exact": True, "max_ulp_f32": 0.0, "max_abs": 0.0, "relative": 0.0}
    assert len(report["host"]["load"]) == 3 and report["host"]["burst"]["lost"] == 0
    assert (function / "b.html").read_text().count("<svg") == 2
    wrong = bench(trine, function, "infer.py:once", "--seconds", "0.1", "--reference", "other.npz", code=1)
    assert "ulp of f32" in wrong.stdout


def test_a_server_and_its_lost_requests(trine, tmp_path):
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500 if len(seen) > 40 else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "body.json").write_text('{"a": 1}')
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        report = json.loads(bench(trine, tmp_path, url, "--body", "body.json", "--seconds", "0.001", "--rate", "100", "--burst", "60", "--json").stdout)
    finally:
        server.shutdown()
    assert seen[0] == b'{"a": 1}' and report["host"]["burst"]["lost"] > 0


def test_a_server_of_this_machine_gets_the_users_key(trine, tmp_path, monkeypatch):
    """Asked for by a 401, and never before."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            self.send_response(200 if seen[-1] == "Bearer tr-own" else 401)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    url = f"http://127.0.0.1:{server.server_port}/"
    try:
        assert "401" in bench(trine, tmp_path, url, code=5).stderr
        (tmp_path / "trine").mkdir()
        (tmp_path / "trine/key").write_text("tr-own\n")
        bench(trine, tmp_path, url, "--seconds", "0.01", "--rate", "50", "--burst", "2")
    finally:
        server.shutdown()
    assert seen[:3] == [None, None, "Bearer tr-own"]


def test_all_requests_lost_is_told(trine, tmp_path):
    (tmp_path / "late.py").write_text("n = []\ndef once():\n    n.append(1)\n    if len(n) > 6:\n        raise RuntimeError('full')\n")
    report = json.loads(bench(trine, tmp_path, "late.py:once", "--seconds", "0", "--rate", "50", "--burst", "4", "--json").stdout)["host"]
    assert report["burst"]["lost"] == 4 and report["burst"]["last_ms"] is None and report["load"][0]["served_per_s"] == 0
    assert "the last after – ms, 4 lost" in bench(trine, tmp_path, "late.py:once", "--seconds", "0", "--rate", "50", "--burst", "4").stdout


def test_calls_shorter_than_what_begins_them(trine, function):
    """A load that this machine cannot offer is not offered."""
    report = json.loads(bench(trine, function, "infer.py:once", "--seconds", "0.2", "--json").stdout)["host"]
    assert report["limited_by"] == "this machine's clock" and report["load"][-1]["offered_per_s"] < 1e3 / report["single"]["p50_ms"] / 2


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "nothing to bench"),
        (["none.py:once"], 2, "expected FILE.py:FUNCTION of a file that is there"),
        (["infer.py:missing"], 2, "found no function missing"),
        (["infer.py:broken"], 5, "infer.py:broken: gone"),
        (["infer.py:asks"], 3, "infer.py:asks raised TypeError"),
        (["ends.py:once"], 3, "ends.py raised SystemExit: 3 (line 2: sys.exit(3))"),
        (["wrong.py:once"], 3, "wrong.py raised SyntaxError"),
        (["infer.py:once", "--seconds", "0.01", "--reference", "infer.py"], 2, "expected the .npz that numpy.savez writes"),
        (["infer.py:once", "--seconds", "0.01", "--reference", "none.npz"], 5, "none.npz"),
        (["--config", "no-such-model"], 3, "no-such-model"),
        (["http://127.0.0.1:9/"], 5, "Connection refused"),
    ],
)
def test_bad_input(trine, function, options, code, words):
    assert words in bench(trine, function, *options, code=code).stderr


@pytest.mark.slow
def test_a_model_in_chip_time(trine, tmp_path):
    options = ["--config", "bert-base", "--phase", "forward", "--instance", "inf2.xlarge", "--batch", "4"]
    report = json.loads(bench(trine, tmp_path, *options, "--slo-ms", "50", "--html", "b.html", "--json").stdout)
    chip = report["chip"]
    assert "host" not in report and chip["time"] == "chip" and chip["copies"] == 4
    assert chip["capacity_per_s"] == pytest.approx(4 * 4 / chip["call_ms"]["p50"] * 1e3)
    tails = [row["latency"]["p99_ms"] for row in chip["load"]]
    assert tails[0] >= chip["call_ms"]["p50"] and tails[-1] > 10 * tails[0] and chip["load"][0]["within_slo"] == 1.0
    assert chip["failures"]["node lost"]["lost"] > 0 and chip["failures"]["core throttled to half"]["lost"] == 0
    assert chip["burst"]["last_ms"] == pytest.approx(4 * chip["call_ms"]["p50"])  # 64 in 4 copies of 4
    sent = chip["cost"]["egress_usd_per_million"]
    assert sent == pytest.approx(2000 * 1e6 / 1e9 * 0.09) and chip["energy"]["wall_joules_per_result"] > 0
    assert (tmp_path / "b.html").read_text().count("<svg") == 3
    assert "expected no less than" in bench(trine, tmp_path, *options, "--slo-ms", "0.1", code=1).stderr


@pytest.mark.parametrize("name", ["single-stream", "offline", "server", "multi-stream"])
def test_loadgen(name):
    pytest.importorskip("mlperf_loadgen", reason="mlcommons-loadgen is not installed: setup/loadgen.txt")
    from trine.decide.bench_loadgen import scenario

    found = scenario(lambda: time.sleep(0.001), name, 200.0, 0.3)
    assert found["Scenario"].replace(" ", "").lower() == name.replace("-", "") and "Result is" in found
    words = " ".join(bench_report.loadgen_words({"loadgen": found}))
    assert found["Result is"] in words and "p50 " in words and " ms" in words and "calls failed" not in words


def test_loadgen_counts_calls_that_fail():
    pytest.importorskip("mlperf_loadgen", reason="mlcommons-loadgen is not installed: setup/loadgen.txt")
    from trine.decide.bench_loadgen import scenario

    def call():
        raise OSError("gone")

    assert scenario(call, "single-stream", 200.0, 0.1, 2)["lost"] > 0

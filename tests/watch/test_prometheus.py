"""Prometheus from the distribution: it scrapes, stores and alerts; promtool has nothing to say of the page."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs/grafana"
NEURONS = {"neuroncore_utilization_ratio", "neuroncore_memory_usage_tensors", "neuron_runtime_memory_used_bytes", "neuron_runtime_vcpu_usage_ratio", "execution_errors_total",
           "execution_status_total", "execution_latency_seconds", "hardware_ecc_events_total", "system_vcpu_count", "system_memory_used_bytes", "instance_info", "neuron_hardware_info"}  # fmt: skip


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.read().decode()


def serve(field, *words, stdin=None):
    """The address of a monitor that runs until the test ends."""
    process = subprocess.Popen([field.trine, "monitor", *words], env=field.environment, stderr=subprocess.PIPE, stdin=stdin, text=True)
    field.processes.append(process)
    line = process.stderr.readline()
    return re.search(r"https?://[^ ]+(?=/metrics)", line)[0]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(ask, seconds=90):
    end = time.time() + seconds
    while True:
        try:
            if found := ask():
                return found
        except (urllib.error.URLError, ConnectionError, KeyError):
            pass
        assert time.time() < end, "it did not come"
        time.sleep(0.3)


def test_names_labels_and_what_is_refused(field, tmp_path):
    field.start("jax", NEURON_PROCESS_TAG="mine")
    url = serve(field, "--prometheus", "0")
    text = get(f"{url}/metrics")
    assert NEURONS <= set(re.findall(r"^# TYPE (\S+)", text, re.M))
    row = re.search(r"^neuroncore_utilization_ratio\{(.*)\} \S+$", text, re.M)[1]
    assert re.findall(r'(\w+)="', row) == ["instance_name", "instance_id", "instance_type", "availability_zone", "region", "subnet_id", "neuroncore", "runtime_tag"]
    assert 'runtime_tag="mine"' in row
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    for path, headers, code in (("/etc/passwd", {}, 404), ("/metrics", {"Host": "evil.example"}, 421)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(url + path, **headers)
        assert refused.value.code == code
    done = field.run("monitor", "--prometheus", "0", "--address", "0.0.0.0")
    assert done.returncode == 2 and "--token-file" in done.stderr
    (tmp_path / "token").write_text("sesame\n")
    guarded = serve(field, "--prometheus", "0", "--token-file", str(tmp_path / "token"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{guarded}/metrics")
    assert refused.value.code == 401
    assert "instance_info" in get(f"{guarded}/metrics", Authorization="Bearer sesame")


def test_documents_through_a_pipe(field):
    field.start("torch", NEURON_PROCESS_TAG="mine")
    monitor = subprocess.Popen([field.trine, "monitor", "--period", "500ms"], env=field.environment, stdout=subprocess.PIPE)
    field.processes.append(monitor)
    script = Path(field.trine).parent / "neuron-monitor-prometheus.py"
    port = free_port()
    field.processes.append(subprocess.Popen([sys.executable, str(script), "--port", str(port)], env=field.environment, stdin=monitor.stdout, stderr=subprocess.DEVNULL))
    counted = lambda: re.search(r'^execution_status_total\{.*status_type="completed".*\} (\d+)', get(f"http://127.0.0.1:{port}/metrics"), re.M)  # noqa: E731
    first = int(wait_for(counted)[1])
    assert wait_for(lambda: int(counted()[1]) > first), "counts grow"


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Debian's prometheus (setup/apt-watch.txt)")
def test_prometheus_scrapes_stores_and_alerts(field, tmp_path):
    field.start("torch", NEURON_PROCESS_TAG="mine", TRINE_FAULT="ecc:mem_uncorrected=2,after=1000000;ecc:mem_corrected=3")
    url = serve(field, "--prometheus", "0")
    rules = DOCS / "alerts.yml"
    assert subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True).returncode == 0
    (tmp_path / "rules.yml").write_text(re.sub(r"for: \S+", "for: 0s", rules.read_text()))
    host = url.removeprefix("http://")
    (tmp_path / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs: [{{job_name: neuron, static_configs: [{{targets: ["{host}"]}}]}}]
""")
    port = free_port()
    field.processes.append(subprocess.Popen(["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path))  # fmt: skip
    api = lambda path: json.loads(get(f"http://127.0.0.1:{port}/api/v1/{path}"))["data"]  # noqa: E731
    query = lambda text: api("query?query=" + urllib.parse.quote(text))["result"]  # noqa: E731
    assert wait_for(lambda: [t for t in api("targets")["activeTargets"] if t["health"] == "up"])
    [row] = wait_for(lambda: query('execution_status_total{status_type="completed"} > 0'))
    assert row["metric"]["runtime_tag"] == "mine"
    assert wait_for(lambda: query("rate(trine_neuroncore_executions_total[10s]) > 0")), "stored: a rate needs several scrapes"
    fired = wait_for(lambda: [a["labels"]["alertname"] for a in api("alerts")["alerts"] if a["state"] == "firing"])
    assert "NeuronEccCorrected" in fired


def test_the_board_asks_only_for_what_there_is(field):
    field.start("torch")
    url = serve(field, "--prometheus", "0")
    text = wait_for(lambda: (found := get(f"{url}/metrics")) and "trine_device_latency_seconds" in found and found)  # once programs are timed
    there = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    board = json.loads((DOCS / "board.json").read_text())
    asked = {t["expr"] for p in board["panels"] for t in p.get("targets", [])}
    names = {n for e in asked for n in re.findall(r"\b((?:neuron|execution|hardware|system|instance|trine)[a-z_]*)\b(?=[{\[\s)]|$)", e)}
    assert len(board["panels"]) >= 10 and names and names <= there | {"instance_type"}, names - there

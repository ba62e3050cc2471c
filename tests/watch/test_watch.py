"""Counters of real programs, through the commands people type."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

CONFIG = {"period": "1s", "neuron_runtimes": [{"tag_filter": "mi.*", "metrics": [{"type": "neuroncore_counters"}, {"type": "execution_stats"}, {"type": "memory_used"}]}],
          "system_metrics": [{"type": "memory_info"}, {"type": "neuron_hw_counters"}]}  # fmt: skip


def sample(field):
    done = field.run("top", "--once", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["sample"]


@pytest.mark.parametrize("kind", ["torch", "jax", "nki"])
def test_a_framework_is_seen(field, kind):
    process = field.start(kind, NEURON_PROCESS_TAG="mine")
    found = sample(field)["neuron_runtime_data"]
    assert [(r["pid"], r["neuron_runtime_tag"]) for r in found] == [(process.pid, "mine")]
    report = found[0]["report"]
    core, ours = report["neuroncore_counters"]["neuroncores_in_use"]["0"], report["trine"]["cores"]["0"]
    assert 0 < core["neuroncore_utilization"] < 100
    assert ours["timed_percent"] == 100, "each program was compiled and timed by the watcher"
    assert sum(ours["engine_utilization"].values()) > 0
    assert report["execution_stats"]["execution_summary"]["completed"] > 0
    assert report["trine"]["usd_total"] > 0 and ours["watts"] > 0
    device, total = (report["execution_stats"]["latency_stats"][k]["p50"] for k in ("device_latency", "total_latency"))
    assert 1e-6 < device < 1 and total > 0


def test_the_time_of_a_program_is_that_of_timed(field):
    """What the watcher takes a run for is what trine.timed says of it, to the nanosecond."""
    script = """
import jax, jax.numpy as jnp, time, trine
a, f = jnp.ones((256, 256)), jax.jit(lambda a: jnp.tanh(a @ a).sum())
f(a).block_until_ready()
with trine.timed() as t:
    f(a).block_until_ready()
print(t.programs[0].each_ns, flush=True)
while True:
    f(a).block_until_ready()
"""
    process = subprocess.Popen([sys.executable, "-c", script], env={**field.environment, "JAX_PLATFORMS": "neuron"}, stdout=subprocess.PIPE, text=True)
    field.processes.append(process)
    each_ns = float(process.stdout.readline())
    latency = sample(field)["neuron_runtime_data"][0]["report"]["execution_stats"]["latency_stats"]["device_latency"]
    assert round(latency["p50"] * 1e9) == round(each_ns)


def test_a_killed_process_is_gone_and_an_ended_one_leaves_nothing(field):
    killed, ended = field.start("torch"), field.start("torch", seconds=0.1)
    ended.wait(timeout=60)
    assert len(sample(field)["neuron_runtime_data"]) == 1
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert sample(field)["neuron_runtime_data"] == []
    assert [p.name for p in field.folder.iterdir()] == ["times"]


def test_monitor_takes_neurons_configuration(field, tmp_path):
    field.start("torch", NEURON_PROCESS_TAG="mine")
    field.start("torch", NEURON_PROCESS_TAG="other")
    (tmp_path / "conf.json").write_text(json.dumps(CONFIG))
    done = field.run("monitor", "-c", str(tmp_path / "conf.json"), "--count", "2")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(documents) == 2
    assert [r["neuron_runtime_tag"] for r in documents[1]["neuron_runtime_data"]] == ["mine"]
    assert set(documents[1]["neuron_runtime_data"][0]["report"]) == {"neuroncore_counters", "execution_stats", "memory_used", "trine"}
    assert set(documents[1]["system_data"]) == {"memory_info", "neuron_hw_counters"}
    assert documents[1]["neuron_hardware_info"]["neuron_device_type"] == "trainium"
    assert 0.9 < documents[1]["system_data"]["memory_info"]["period"] < 5
    (tmp_path / "wrong.json").write_text('{"system_metrics": [{"type": "gpu"}]}')
    wrong = field.run("monitor", "-c", str(tmp_path / "wrong.json"))
    assert wrong.returncode == 3 and 'found the metric "gpu"' in wrong.stderr


def test_ls_lists_who_holds_cores(field):
    process = field.start("torch")
    [device] = json.loads(field.run("ls", "-j").stdout)
    assert [(p["pid"], "workload.py" in p["command"]) for p in device["neuron_processes"]] == [(process.pid, True)]
    assert re.search(rf"\| {process.pid} +\| .*workload.py torch", field.run("ls", "--wide").stdout)
    assert json.loads(field.run("ls", "-j", "--instance", "trn2.48xlarge").stdout)[0]["neuron_processes"] == []


def test_sysfs_tree(field, tmp_path):
    field.start("torch")
    done = field.run("monitor", "--sysfs", str(tmp_path / "sys"), "--period", "500ms", "--count", "2")
    assert done.returncode == 0, done.stderr
    core = tmp_path / "sys/neuron_device/neuron0/neuron_core0"
    assert int((core / "stats/status/success/total").read_text()) > 0
    assert int((core / "stats/memory_usage/device_mem/tensors/total").read_text()) > 0
    assert (tmp_path / "sys/neuron_device/neuron0/info/architecture/arch_type").read_text() == "NCv2\n"
    assert re.fullmatch(r"POWER_STATUS_VALID,\d+,[\d.]+,[\d.]+,[\d.]+\n", (tmp_path / "sys/neuron_device/neuron0/stats/power/utilization").read_text())


def test_counters_can_be_switched_off(field):
    field.start("torch", TRINE_COUNTERS="off")
    assert sample(field)["neuron_runtime_data"] == []
    assert field.run("top", "--once", TRINE_COUNTERS="off").returncode == 2


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux (setup/apt-watch.txt)")
def test_top_in_a_terminal(field, tmp_path):
    """Drawn at three sizes, keys as neuron-top has them, q ends it and gives the screen back."""
    field.start("torch", NEURON_PROCESS_TAG="mine")
    field.run("top", "--once")  # times the programs
    name = f"trine-{os.getpid()}"
    tmux = lambda *words: subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True, env=field.environment).stdout  # noqa: E731

    def shows(pattern, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            screen = tmux("capture-pane", "-p")
            if re.search(pattern, screen):
                return screen
            time.sleep(0.2)
        raise AssertionError(f"no {pattern} in\n{screen}")

    try:
        tmux("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "32", f"{field.trine} top --period 0.3; echo left; cat")
        screen = shows(r"NC0 \[.*\d\.\d+%\]")
        for pane in ("NeuronCore v2 Utilization", "VCPU Utilization", "Memory Usage Summary", "Memory Usage Details", r"Neuron Apps  \[1\]:>all< \[2\]:mine"):
            assert re.search(pane, screen), pane
        tmux("send-keys", "F")
        shows(r"TFLOPS\]")
        tmux("send-keys", "2")
        shows(r"\[2\]:>mine<")
        tmux("send-keys", "x"), tmux("send-keys", "x")
        shows(r"\[-\] NC0\b")
        for columns, rows in ((40, 10), (200, 60), (20, 4)):
            tmux("resize-window", "-x", str(columns), "-y", str(rows))
            time.sleep(1)
            lines = tmux("capture-pane", "-p").splitlines()
            assert len(lines) <= rows and max(map(len, lines)) <= columns and lines[0].startswith("neuron-top"[:columns])
        tmux("send-keys", "q")
        shows("left")
    finally:
        tmux("kill-server")

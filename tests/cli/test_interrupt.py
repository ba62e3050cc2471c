"""Ctrl-C of commands: they end, without a traceback, and so do the processes that work for them."""

import os
import signal
import subprocess
import sys
import time

import pytest

WORKERS = """
import os, signal, threading, time
from trine.workers import processes

if __name__ == "__main__":
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with processes(2, "spawn") as pool:
            print(*pool.map(time.sleep, [0, 0]), flush=True)
            list(pool.map(time.sleep, [60, 60]))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("seconds", [0.3, 0.6, 2.0, 8.0])
def test_a_command_of_python(trine, seconds):
    words = [trine, "estimate", "--config", "llama-3-8b", "--phase", "train", "--tp", "8", "--seq", "4096", "--instance", "trn1.32xlarge"]
    environment = {**os.environ, "NEURON_CC_FLAGS": "--no_cache", "VIRTUAL_ENV": os.path.dirname(os.path.dirname(sys.executable))}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and "Traceback" not in err, err
    assert time.monotonic() - begin < 10  # a second where a core is idle; by itself it would take a minute


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_when_nobody_is_left(tmp_path, how):
    script = tmp_path / "asks.py"
    script.write_text(WORKERS.replace("    threading.Timer", "    signal.signal(signal.SIGINT, signal.SIG_DFL) or threading.Timer").replace("1.5", "60"))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "None None\n"
    children = [int(c) for task in os.listdir(f"/proc/{process.pid}/task") for c in open(f"/proc/{process.pid}/task/{task}/children").read().split()]
    process.send_signal(how)
    process.wait(timeout=60)
    workers = [c for c in children if is_worker(c)]
    end = time.monotonic() + 30
    while any(is_worker(c) for c in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(is_worker(c) for c in workers)


def is_worker(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file, open(f"/proc/{pid}/stat") as state:
            return "spawn_main" in file.read() and ") Z" not in state.read()
    except OSError:
        return False


def test_workers_end_with_who_asked(tmp_path):
    script = tmp_path / "asks.py"
    script.write_text(WORKERS)
    begin = time.monotonic()
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=50)
    assert done.stdout == "None None\ninterrupted\n", done.stdout + done.stderr
    assert time.monotonic() - begin < 30

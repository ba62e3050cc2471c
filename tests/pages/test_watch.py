"""The monitor's own page in a browser: what it shows is what the document says, and it goes on by itself."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from browser import tab

WORK = """
import torch
x = torch.ones(64, 64, device="neuron")
print("ready", flush=True)
while True:
    (x @ x).sum().item()
"""


@pytest.fixture
def address(request, tmp_path):
    """A process that works, and a monitor's page beside it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    env |= {"TRINE_COUNTERS": str(tmp_path / "counters"), "NEURON_PROCESS_TAG": "my-job", "PYTHONPATH": str(request.config.rootpath / "python"), "VIRTUAL_ENV": sys.prefix}
    work = subprocess.Popen([sys.executable, "-c", WORK], env=env, stdout=subprocess.PIPE, text=True)
    assert work.stdout.readline() == "ready\n"
    page = subprocess.Popen([request.config.trine, "monitor", "--page", "0"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = page.stdout.readline()
    try:
        yield re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)[0], work
        page.send_signal(signal.SIGINT)
        assert page.wait(30) == 0 and "Traceback" not in page.stdout.read()
    finally:
        for process in (work, page):
            process.kill()
            process.wait()


def test_cores_processes_and_time(chromium_started, address):
    url, work = address
    with tab(chromium_started) as t:
        t.open(url, "now")
        t.tab.wait_for_function("() => Number(document.querySelector('[data-drawn]')?.dataset.drawn) >= 3", timeout=60000)
        t.tab.wait_for_selector("main table")
        now = t.tab.evaluate("async () => (await fetch('/api/now')).json()")
        [runtime] = now["document"]["neuron_runtime_data"]
        cores, processes = (t.tab.locator("main table").nth(n).inner_text() for n in (0, 1))
        assert "my-job" in cores and str(work.pid) in processes and runtime["pid"] == work.pid
        assert t.tab.locator("main table").nth(0).locator("tbody tr").count() == len(runtime["report"]["trine"]["cores"]) == 1
        use = float(re.search(r"([\d.]+)\s*%", cores)[1])
        assert 0 < use <= 100 and len(now["history"]) >= 3
        assert t.tab.locator(".fact-word").all_inner_texts()[:4] == ["cores in use", "utilisation", "so far", "power"]
        assert t.tab.locator(".chart svg path, .chart canvas").count() > 0
        work.kill()
        work.wait()
        t.tab.get_by_text("No process uses a core.").wait_for(timeout=30000)
        t.tab.keyboard.press("t")
        t.tab.keyboard.press("t")
        assert t.tab.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"


def test_without_its_token_nothing_is_said(address):
    url, _ = address
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.split("?")[0] + "api/now", timeout=30)
    assert refused.value.code in (401, 403)

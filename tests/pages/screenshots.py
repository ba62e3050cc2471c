"""Takes the pictures of docs/profile_page.md, docs/watch.md and docs/decide.md: `python tests/pages/screenshots.py`, after `make build`."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import browser, tab  # noqa: E402

from trine.pages import profile  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs/_static/pages"
TRAIN = """
import torch, torch.nn as nn, torch.nn.functional as F
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v))
        return x + self.down(F.gelu(self.up(x)))
model = nn.Sequential(Block(128), Block(128))
step = torch.compile(model, backend="neuron")
for _ in range(4):
    step(torch.randn(4, 64, 128)).square().mean().backward()
"""


WORK = """
import torch
x = torch.randn(1024, 1024, device="neuron", dtype=torch.bfloat16)
while True:
    (x @ x).softmax(-1).sum().item()
"""


def shot(t, name):
    t.tab.screenshot(path=OUT / f"{name}.png", scale="css")


def captured(folder, name, text):
    """By one file name, so that lines of two profiles are the same lines."""
    (folder / "train.py").write_text(text)
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([ROOT / "build/trine", "profile", "capture", "-o", f"{name}.ntff", "--", "python", "train.py"], cwd=folder, env=env, check=True)
    return folder / f"{name}.ntff"


def profiles(started, folder):
    train = captured(folder, "before", TRAIN)
    with profile.server(profile.opened(train)).running() as s, tab(started, width=1180, height=700) as t:
        t.open(s.url, "summary")
        t.tab.wait_for_selector(".advice li")
        shot(t, "summary")
        t.open(s.url + "#/timeline?begin=92000&end=170000&path=1", "timeline")
        t.tab.wait_for_timeout(1500)
        shot(t, "timeline")
        t.view("operators")
        t.tab.locator("tbody tr").first.click()
        shot(t, "operators")
    wider = captured(folder, "after", TRAIN.replace("4 * d", "8 * d"))
    with profile.server(profile.opened(wider, train)).running() as s, tab(started, width=1180, height=700) as t:
        t.open(s.url + "#/compare", "compare")
        shot(t, "compare")


def monitor(started, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    env |= {"TRINE_COUNTERS": str(folder / "counters"), "PYTHONPATH": str(ROOT / "python"), "VIRTUAL_ENV": sys.prefix}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    (folder / "multiply.py").write_text(WORK)
    work = [subprocess.Popen(["python", "multiply.py"], cwd=folder, env=env | {"NEURON_PROCESS_TAG": f"job-{n}", "NEURON_RT_VISIBLE_CORES": str(n)}) for n in range(2)]
    page = subprocess.Popen([ROOT / "build/trine", "monitor", "--page", "0"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", page.stdout.readline())[0]
        with tab(started, width=1180, height=760) as t:
            t.open(url, "now")
            t.tab.wait_for_function("() => Number(document.querySelector('[data-drawn]')?.dataset.drawn) >= 30", timeout=120000)
            shot(t, "monitor")
    finally:
        for process in (*work, page):
            process.terminate()
            process.wait()


def decision(started, folder):
    (folder / "train_cuda.py").write_text('import torch\nfrom flash_attn import flash_attn_func\nmodel = build().cuda()\ny = model(x.to("cuda"))\n')
    words = [ROOT / "build/trine", "decide", "--config", "llama-3-8b", "--audit", "train_cuda.py", "--ahead", "0"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        with tab(started, width=1180, height=900) as t:
            t.open(url)
            t.tab.wait_for_selector("[data-drawn]")
            shot(t, "decide")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as started:
        profiles(started, Path(folder))
        monitor(started, Path(folder))
        decision(started, Path(folder))

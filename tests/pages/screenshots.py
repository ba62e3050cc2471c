"""Takes the pictures of docs/profile_page.md and docs/decide.md: `python tests/pages/screenshots.py`, after `make build`."""

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


def shot(t, name):
    t.tab.screenshot(path=OUT / f"{name}.png", scale="css")


def profiles(started, folder):
    (folder / "train.py").write_text(TRAIN)
    subprocess.run([ROOT / "build/trine", "profile", "capture", "-o", "p.ntff", "--", sys.executable, "train.py"], cwd=folder, check=True)
    with profile.server(profile.opened(folder / "p.ntff")).running() as s, tab(started, width=1180, height=700) as t:
        t.open(s.url, "summary")
        t.tab.wait_for_selector(".advice li")
        shot(t, "summary")
        t.open(s.url + "#/timeline?begin=92000&end=170000&path=1", "timeline")
        t.tab.wait_for_timeout(1500)
        shot(t, "timeline")
        t.view("operators")
        t.tab.locator("tbody tr").first.click()
        shot(t, "operators")


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
        decision(started, Path(folder))

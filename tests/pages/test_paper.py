"""Reports on paper: of audit, tco, bench and migrate, printed from a dark screen: black on white, nothing wider than the sheet."""

import json
import shutil
import subprocess

import pytest
from browser import tab

from trine.decide import paper

A4 = 794 - 2 * 46  # px between the margins of the sheet
LONG = "a/" + "very_long_folder_name/" * 6 + "model.py"
SPEEDS = {"trn1.32xlarge": [4000, 5000, 6000], "p5.48xlarge": [35000, 40000, 45000]}
BOTH = ["--config", "llama-3-8b", "--machines", ",".join(SPEEDS), "--speeds", "speeds.json"]
MOVE = '[project]\npath = "app"\nconfig = "tiny.json"\n[traffic]\nitems_per_day = 1e8\nprompt = 24\noutput = 8\n[try]\ninstances = ["inf2.xlarge", "trn1.2xlarge"]\nbatches = [2]\n'
TINY = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 128, "_name_or_path": "tiny"}
# What makes each page, and the most sheets it may take.
MADE = {
    "audit": (["audit", "app", "--html", "audit.html"], 3),
    "tco": (["tco", *BOTH, "--tokens-per-day", "1e9", "--html", "tco.html"], 4),
    "train": (["tco", *BOTH, "--train", "--tokens", "1e12", "--html", "train.html"], 4),
    "bench": (["bench", "infer.py:once", "--seconds", "0.1", "--html", "bench.html"], 3),
    "chip": (["bench", "--config", "tiny.json", "--seq", "32", "--instance", "inf2.xlarge", "--html", "chip.html"], 4),
    "migrate": (["migrate", "move.toml"], 5),
}
SLOW = ("chip", "migrate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    (folder / "app" / LONG).parent.mkdir(parents=True)
    (folder / "app" / LONG).write_text('import torch\nmodel = build().cuda()\ny = model(x.to("cuda"), ' + ", ".join(f"argument_{i}=torch.cuda.current_device()" for i in range(12)) + ")\n")
    (folder / "infer.py").write_text("import time\ndef once():\n    time.sleep(0.002)\n")
    (folder / "speeds.json").write_text(json.dumps(SPEEDS))
    (folder / "tiny.json").write_text(json.dumps(TINY))
    (folder / "move.toml").write_text(MOVE)
    return folder


def sheets(path):
    pdf = path.read_bytes()
    return pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page\n") + pdf.count(b"/Type/Page ")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MADE])
def test_it_prints(chromium_started, trine, folder, name):
    words, most = MADE[name]
    done = subprocess.run([trine, *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    page = folder / ("move.migration/report.html" if name == "migrate" else f"{name}.html")
    with tab(chromium_started, dark=True, width=A4) as t:
        t.tab.goto(page.as_uri())
        assert t.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"  # dark on the screen
        t.tab.emulate_media(media="print")
        assert t.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert t.tab.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
        inks = t.tab.evaluate("[...document.querySelectorAll('svg text')].map(e => getComputedStyle(e).fill)")
        assert not {"rgb(230, 237, 243)", "rgb(145, 152, 161)"} & set(inks)
        wide = t.tab.evaluate("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + ' ' + e.textContent.slice(0, 40))")
        assert not wide and t.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        t.tab.pdf(path=folder / f"{name}.pdf", prefer_css_page_size=True)
    assert 1 <= sheets(folder / f"{name}.pdf") <= most


def test_a_table_over_sheets_has_its_head_on_each(chromium_started, tmp_path):
    if not shutil.which("pdftotext"):
        pytest.skip("no pdftotext: setup/apt.sh setup/apt-browser.txt installs it")
    made = paper.page("a long table", [paper.plain(["place", "stands in for it"], [[f"model.py:{n}", "one line"] for n in range(150)])])
    (tmp_path / "long.html").write_text(made)
    with tab(chromium_started, width=A4) as t:
        t.tab.goto((tmp_path / "long.html").as_uri())
        t.tab.pdf(path=tmp_path / "long.pdf", prefer_css_page_size=True)
    text = subprocess.run(["pdftotext", "-layout", tmp_path / "long.pdf", "-"], capture_output=True, text=True, check=True).stdout
    pages = [page for page in text.split("\f") if page.strip()]
    assert len(pages) >= 3 and all(page.count("stands in for it") == 1 for page in pages)

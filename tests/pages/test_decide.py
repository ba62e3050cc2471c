"""trine decide in a browser: its numbers are those that trine tco prints, sliders move them, it prints."""

import json
import re
import signal
import subprocess

import pytest
from browser import tab

SPEEDS = {"trn1.32xlarge": [4000, 5000, 6000], "inf2.48xlarge": [1500, 1900, 2500], "p5.48xlarge": [35000, 40000, 45000]}
MACHINES = ["--machines", ",".join(SPEEDS), "--speeds", "speeds.json", "--config", "llama-3-8b"]
SOURCE = 'import torch\nfrom flash_attn import flash_attn_func\nmodel = build().cuda()\ny = model(x.to("cuda"))\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decide")
    (folder / "speeds.json").write_text(json.dumps(SPEEDS))
    (folder / "project").mkdir()
    (folder / "project" / "train.py").write_text(SOURCE)
    (folder / "bench.json").write_text(json.dumps({"version": 1, "kind": "bench", "host": {
        "time": "host", "burst": {"requests": 64, "last_ms": 80.0},
        "load": [{"offered_per_s": r, "latency": {"p50_ms": 5.0 + r, "p99_ms": 9.0 + 2 * r}} for r in (10, 20, 30)]}}))  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def url(request, folder):
    words = [request.config.trine, "decide", *MACHINES, "--audit", "project", "--bench", "bench.json", "--ahead", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    line = process.stdout.readline()
    assert line.startswith("open  http://127.0.0.1:"), line + process.stderr.read()
    yield re.search(r"http://\S+", line)[0]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0 and not process.stderr.read()


def printed(trine, folder, *options):
    """What the command says of the same workload, with the audit of the same project."""
    with open(folder / "audit.json", "w") as f:
        subprocess.run([trine, "audit", "project", "--json"], stdout=f, check=True, cwd=folder)
    words = [trine, "tco", *MACHINES, "--prompt", "896", "--output", "128", "--batch", "32", "--audit", "audit.json", "--json", *options]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder).stdout)


def rows(report):
    return [{k: r[k] for k in ("machine", "way", "total_usd", "usd_per_million_tokens", "distribution")} for r in report["rows"]]


def move(t, name, steps):
    """A slider, by its keys."""
    t.tab.focus(f"input[name={name}]")
    for _ in range(abs(steps)):
        t.tab.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")


def test_numbers_are_the_commands(chromium_started, url, trine, folder):
    with tab(chromium_started) as t:
        answers = []
        t.tab.on("response", lambda r: answers.append(r) if "/api/tco" in r.url else None)
        t.open(url)
        t.tab.wait_for_selector("[data-drawn]")
        wanted = printed(trine, folder, "--tokens-per-day", "1e9")
        assert rows(answers[-1].json()["report"]) == rows(wanted)
        cells = t.tab.locator("main table").first.locator("tbody tr").all_inner_texts()
        for cell, row in zip(cells, wanted["rows"], strict=True):
            likely = row["total_usd"]["likely"]
            assert row["machine"] in cell and f"${float(f'{likely / (1e6 if likely >= 999500 else 1e3):.3g}'):g}" in cell.replace(",", "")
        text = t.text()
        assert "train.py:2" in text and "flash" in text and f"{100 * wanted['chance_cheaper']:.0f} % of draws" in text
        assert "Latency under load, host time" in text and t.tab.locator(".chart svg").count() >= 3


def test_sliders_move_the_answer(chromium_started, url, trine, folder):
    with tab(chromium_started, dark=True) as t:
        answers = []
        t.tab.on("response", lambda r: answers.append(r) if "/api/tco" in r.url else None)
        t.open(url)
        t.tab.wait_for_selector("[data-drawn]")
        before = t.text(".answer")
        move(t, "utilisation", -8)
        t.tab.wait_for_selector('[data-drawn*="utilisation=0.2&"]')
        move(t, "neuron_price", -2)
        t.tab.wait_for_selector('[data-drawn*="neuron_price=0.8&"]')
        wanted = printed(trine, folder, "--tokens-per-day", "1e9", "--utilisation", "0.2", "--neuron-price", "0.8")
        last = [r for r in answers if "utilisation=0.2&neuron_price=0.8" in r.url][-1]
        assert rows(last.json()["report"]) == rows(wanted)
        assert t.text(".answer") != before and "utilisation=0.2" in t.tab.url
        address = t.tab.url
        t.tab.goto("about:blank")
        t.tab.goto(address)  # a deep link stands where it stood
        t.tab.wait_for_selector('[data-drawn*="utilisation=0.2&neuron_price=0.8"]')


def test_it_prints(chromium_started, url, tmp_path):
    with tab(chromium_started, dark=True) as t:
        t.open(url)
        t.tab.wait_for_selector("[data-drawn]")
        t.tab.pdf(path=tmp_path / "page.pdf", format="A4")
        pdf = (tmp_path / "page.pdf").read_bytes()
        assert pdf.startswith(b"%PDF") and 1 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page") <= 8
        t.tab.emulate_media(media="print")
        assert t.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert t.tab.evaluate("getComputedStyle(document.querySelector('.answer')).color") == "rgb(31, 35, 40)"
        assert not t.tab.is_visible(".tools")


def test_one_file_for_a_colleague(chromium_started, trine, folder):
    subprocess.run([trine, "decide", *MACHINES, "--bench", "bench.json", "--html", "out.html"], check=True, cwd=folder, capture_output=True)
    with tab(chromium_started) as t:
        t.tab.goto((folder / "out.html").as_uri())
        t.tab.wait_for_selector("[data-drawn]")
        wanted = json.loads(subprocess.run([trine, "decide", *MACHINES, "--json"], capture_output=True, text=True, check=True, cwd=folder).stdout)
        assert t.text(".answer") == wanted["words"]["answer"]
        move(t, "peer_price", 1)
        t.tab.wait_for_selector('[data-drawn*="peer_price=1.1"]')
        assert all(u.startswith(("file:", "data:")) for u in t.requests)


@pytest.mark.parametrize("options, code, words", [([], 2, "--config is missing"), (["--config", "llama-3-8b", "--audit", "nowhere"], 2, "found no nowhere"), (["--config", "no-such-model"], 3, "no-such-model"),
                                                  (["--config", "llama-3-8b", "--bench", "speeds.json2"], 5, "speeds.json2")])  # fmt: skip
def test_bad_input(trine, folder, options, code, words):
    done = subprocess.run([trine, "decide", *options], capture_output=True, text=True, cwd=folder)
    assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr

"""The page of a core dump in a browser: every engine where it stood, what it waited for, semaphores, bytes around it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from browser import tab

from trine.pages import core

KERNEL = Path(__file__).parents[1] / "run/tile_add.tasm"


@pytest.fixture(scope="module")
def dumped(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    env = {**os.environ, "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY": str(folder)}
    done = subprocess.run([request.config.trine, "run", KERNEL, "--values", "--fault", "stuck:semaphore=0"], env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    (file,) = folder.glob("core.*.json")
    return file


def seen(t, dump):
    """What a person reads on the three views is what the dump holds."""
    text = t.text()
    assert dump["status"] in text and dump["message"] in text
    for engine in dump["engines"]:
        row = t.tab.locator("tbody tr", has=t.tab.get_by_text(engine["stream"], exact=True)).first.inner_text()
        assert engine["state"] in row and (engine["waits_for"] or "") in row
    still = [e for e in dump["engines"] if e["state"] != "ended"]
    assert t.tab.locator(".stood").count() == len(still) > 0
    for engine in still:
        part = t.tab.locator(f'.stood[data-engine="{engine["stream"]}"]')
        assert engine["instruction"].replace(f" at {engine['where']}", "") in part.inner_text() and engine["where"] in part.inner_text()
        line = KERNEL.read_text().splitlines()[int(engine["where"].rpartition(":")[2]) - 1]
        assert line.strip() in part.locator("tr.hot").inner_text()
    t.view("semaphores")
    for values in dump["semaphores"]:
        for name, value in values.items():
            assert [name, str(value)] in [r.inner_text().split("\t")[1:3] for r in t.tab.locator("tbody tr").all()]
    t.view("memory")
    shown = [p.inner_text() for p in t.tab.locator(".piece pre").all()]
    assert len(shown) == len(dump["memory"]) > 0
    for text, m in zip(shown, dump["memory"], strict=True):
        assert "".join(line[10:57].replace(" ", "") for line in text.split("\n")) == m["bytes"]


def test_page(chromium_started, dumped):
    dump = json.loads(dumped.read_text())
    with core.server(core.read(dumped)).running() as s, tab(chromium_started) as t:
        t.open(s.url, "engines")
        seen(t, dump)


def test_one_file_in_the_dark(chromium_started, dumped, trine, tmp_path):
    done = subprocess.run([trine, "profile", "view", dumped, "--html", tmp_path / "core.html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tab(chromium_started, dark=True) as t:
        t.tab.goto((tmp_path / "core.html").as_uri())
        t.ready("engines")
        seen(t, json.loads(dumped.read_text()))
        assert t.tab.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
        assert all(u.startswith(("file:", "data:")) for u in t.requests)


def test_another_file_is_refused(trine, tmp_path):
    (tmp_path / "other.json").write_text('{"version": 1, "kind": "<script>"}')
    done = subprocess.run([trine, "profile", "view", tmp_path / "other.json", "--html", tmp_path / "x.html"], capture_output=True, text=True)
    assert done.returncode == 3 and 'expected version 1 of "trine core"' in done.stderr and not (tmp_path / "x.html").exists()

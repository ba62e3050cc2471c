"""The timeline in a browser over a profile of any size: frames, memory, arrows, keys, links."""

import json
import os

import pytest
from browser import tab
from synthetic import SHIFT, Synthetic

from trine.pages import profile

MANY = 20_000_000


@pytest.fixture(scope="module")
def url():
    page = profile.Page(Synthetic(200_000))
    with profile.server(page).running() as s:
        yield s.url


def at(t, what):
    return t.tab.evaluate(f"() => trineTimeline.{what}")


def settle(t):
    """Until what is on the screen has come."""
    t.tab.wait_for_timeout(60)
    for _ in range(200):
        if at(t, "tiles.idle()") and not at(t, "pending"):
            return
        t.tab.wait_for_timeout(50)
    raise AssertionError("tiles never came")


def tab_bytes(started):
    """Resident memory of the largest tab's process."""
    listed = started.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = []
    for process in listed:
        if process["type"] == "renderer":
            with open(f"/proc/{process['id']}/status") as f:
                sizes += [1024 * int(line.split()[1]) for line in f if line.startswith("VmRSS")]
    return max(sizes)


def opened(t, url, parameters=""):
    t.open(f"{url}#/timeline{parameters}", "timeline")
    settle(t)


def test_tiles_hold_what_the_reader_gives():
    held = Synthetic(50_000)
    page = profile.Page(held)
    data = profile.packed(held.window([0, 3], 0, 100_000_000, 512))
    assert int.from_bytes(data[4:8], "little") == 2 and len(data) == 8 + sum(8 + 40 * len(rows) for rows in held.window([0, 3], 0, 100_000_000, 512).values())
    assert page.chip.levels > 10 and page.chip.tile_of(0, 0, [0])


@pytest.mark.parametrize("query", ["level=0&index=1&tracks=0", "level=99&index=0&tracks=0", "level=0&index=0&tracks=9999", "level=0&index=0&tracks=a", "level=0&index=0", "level=-1&index=0&tracks=0",
                                   "level=0&index=0&tracks=" + ",".join("0" * 300)])  # fmt: skip
def test_tiles_that_are_not_there(query):
    from trine.pages.server import Bad, Query

    with pytest.raises(Bad):
        profile.Page(Synthetic(1000)).chip.tile(Query(query))


def test_keys_move_and_the_address_follows(chromium_started, url):
    with tab(chromium_started) as t:
        opened(t, url)
        whole = at(t, "end") - at(t, "begin")
        for _ in range(8):
            t.tab.keyboard.press("w")
        settle(t)
        assert at(t, "end") - at(t, "begin") < whole / 40
        before = at(t, "begin")
        t.tab.keyboard.press("d")
        settle(t)
        assert at(t, "begin") > before
        t.tab.wait_for_timeout(300)
        address = t.tab.url
        assert f"begin={round(at(t, 'begin'))}" in address
        t.tab.goto("about:blank")
        t.tab.goto(address)
        t.ready("timeline")
        assert at(t, "begin") == pytest.approx(round(before), rel=0.5) and f"begin={round(at(t, 'begin'))}" in address


def test_an_event_its_arrows_and_the_critical_path(chromium_started, url):
    held = Synthetic(200_000)
    number = 2 * SHIFT + 1000
    wanted = held.event(number)
    with tab(chromium_started, dark=True) as t:
        opened(t, url, f"?event={number}")
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        settle(t)
        text = t.text(".timeline-detail")
        assert wanted["name"] in text and wanted["instruction"] in text and "model.py:42" in text and "12.5\u202fns for vector" in text
        assert at(t, "arrowsDrawn") == 2
        x = t.tab.evaluate("() => { const e = trineTimeline.chosen.event; return trineTimeline.xOf((e.begin_ns + e.end_ns) / 2); }")
        box = t.tab.locator("canvas").bounding_box()
        row = t.tab.evaluate("() => trineTimeline.visible().find(r => r.track && r.track.id === 2).y")
        t.tab.keyboard.press("Escape")
        t.tab.wait_for_selector(".timeline-detail", state="hidden")
        box = t.tab.locator("canvas").bounding_box()
        t.tab.mouse.click(box["x"] + x, box["y"] + row + 9)
        t.tab.wait_for_selector(".timeline-detail:not([hidden])")
        assert wanted["name"] in t.text(".timeline-detail")
        t.tab.keyboard.press("c")
        t.tab.wait_for_selector('button[aria-pressed="true"]')
        settle(t)
        assert at(t, "pathDrawn") >= 3


def test_folds(chromium_started, url):
    with tab(chromium_started) as t:
        opened(t, url)
        before = at(t, "layout.height")
        box = t.tab.locator("canvas").bounding_box()
        y = t.tab.evaluate("() => trineTimeline.visible().find(r => r.title.includes('DMA')).y")
        t.tab.mouse.click(box["x"] + 60, box["y"] + y + 8)
        settle(t)
        assert at(t, "layout.height") > before


def test_one_file_holds_the_timeline(chromium_started, tmp_path):
    from trine.pages import shell

    page = profile.Page(Synthetic(20_000))
    stored = page.stored()
    (tmp_path / "p.html").write_text(shell.one_file(page.title, "profile", stored))
    with tab(chromium_started) as t:
        t.tab.goto((tmp_path / "p.html").as_uri() + "#/timeline")
        t.ready("timeline")
        settle(t)
        t.tab.evaluate("() => trineTimeline.show(1e9, 1.01e9)")
        settle(t)
        rows = t.tab.evaluate("() => { const t = trineTimeline.tiles; return t.find(0, t.levels - 1, t.index(t.levels - 1, 1e9)).rows; }")
        assert rows > 0 and json.dumps(len(t.complaints)) == "0"


def test_text_from_a_profile_is_only_text(chromium_started):
    class Hostile(Synthetic):
        def names(self):
            return ["</script><img src=x onerror=document.title=1>"] * 1000

    held = Hostile(2000)
    held.info["command"] = "<b>x</b></title><script>document.title='owned'</script>"
    with profile.server(profile.Page(held)).running() as s, tab(chromium_started) as t:
        opened(t, s.url, f"?event={SHIFT}")
        assert "owned" not in t.tab.title().replace("document.title='owned'", "") and t.tab.locator("h1 b, img").count() == 0


@pytest.mark.skipif(not os.environ.get("TRINE_TEST_PAGES"), reason="make test-pages")
def test_twenty_million_events_pan(chromium_started):
    """Pans at every level of detail: each frame under 100 ms, the tab under 500 MB."""
    with profile.server(profile.Page(Synthetic(MANY, ranks=8))).running() as s, tab(chromium_started, width=1600, height=1000) as t:
        opened(t, s.url)
        assert "20" in t.text(".timeline-bar")
        pan = """(span) => new Promise((done) => {
            const t = trineTimeline, frames = []; let n = 0, last = performance.now();
            t.show(1e9, 1e9 + span); t.frames.worst = 0;
            const step = (now) => { frames.push(now - last); last = now; t.pan(0.03); if (++n < 90) requestAnimationFrame(step); else done({ gaps: frames.slice(2), worst: t.frames.worst, rows: t.tiles.rows }); };
            requestAnimationFrame(step);
        })"""
        seen = {}
        for span in (4e9, 4e8, 2e7, 1e6, 5e4):
            t.tab.evaluate(f"() => trineTimeline.show(1e9, 1e9 + {span})")
            settle(t)
            seen[span] = found = t.tab.evaluate(f"({pan})({span})")
            gaps = sorted(found["gaps"])
            print(f"{span:g} ns shown: frame {gaps[len(gaps) // 2]:.1f} ms in the middle, {gaps[-1]:.1f} at worst, drawing {found['worst']:.1f} at worst, {found['rows']} rows held")
            assert gaps[int(len(gaps) * 0.98)] < 100 and found["worst"] < 100
        used = tab_bytes(chromium_started) / 1e6
        print(f"tab {used:.0f} MB resident")
        assert used < 500

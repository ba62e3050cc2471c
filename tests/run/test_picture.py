"""Pictures: the drawing says the same as the report, in SVG and in PNG."""

import json
import re
import struct
import subprocess
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

SVG = "{http://www.w3.org/2000/svg}"
PLOT, LANE = 1000, 26  # of picture.cpp
SMALL = """program small
tensor a hbm f32[128,2048] input
tensor t sbuf f32[128,2048] at 0:0
tensor u sbuf f32[128,2048] at 0:8192
stream sync
  dma_copy dst=t[0:16, 0, 2048@1] src=a[0, 16@2048 2048@1] queue=1 then s0+=16
  dma_copy dst=t[16:112, 0, 2048@1] src=a[32768, 112@2048 2048@1] queue=1 then s0+=16
stream scalar
  activation dst=u data=t op=exp wait s0>=32
"""


@pytest.fixture
def draw(trine, tmp_path, request):
    def run(program, name="out.svg", *options, instance="trn2.3xlarge"):
        path = request.config.rootpath / "src/run/accuracy" / f"{program}.tasm"
        if program == "small":
            path = tmp_path / "small.tasm"
            path.write_text(SMALL)
        command = [trine, "run", path, "--instance", instance, "--json", "--picture", tmp_path / name, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return (tmp_path / name).read_bytes(), json.loads(done.stdout)["time"], done.stderr

    return run


def texts(svg):
    return ["".join(t.itertext()) for t in svg.iter(SVG + "text")]


def area(path):
    """Of the columns that one path draws."""
    total = 0
    for part in path.split("M")[1:]:
        x, y = map(float, re.match(r"([\d.]+) ([\d.]+)", part).groups())
        base = y
        for step, value in re.findall(r"([VH])([\d.]+)", part):
            if step == "V":
                y = float(value)
            else:
                total += (float(value) - x) * (base - y)
                x = float(value)
    return total


def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + data)
        if kind == b"IHDR":
            width, height, *rest = struct.unpack(">IIBBBBB", data)
            assert rest == [8, 2, 0, 0, 0]
        body += data if kind == b"IDAT" else b""
        at += 12 + size
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    image = np.zeros((height, width, 3), np.uint8)
    for y, row in enumerate(rows):
        line = row[1:].reshape(width, 3)
        if row[0] == 1:
            line = np.cumsum(line, 0, dtype=np.uint8)
        elif row[0] == 2:
            line = line + image[y - 1] if y else line
        image[y] = line
    return image


@pytest.mark.parametrize("program", ["matmul_tiled", "matmul_blocked_k"])
def test_areas_are_busy_shares(draw, program):
    data, report, _ = draw(program)
    svg = ET.fromstring(data)
    lanes = {}
    for p in svg.iter(SVG + "path"):
        lanes.setdefault(p.get("class"), area(p.get("d")) / (PLOT * LANE))  # the first of a colour is the lane itself
    assert lanes["tensor"] == pytest.approx(report["engines"]["tensor"]["busy_pct"] / 100, abs=0.002)
    assert f"{report['engines']['vector']['busy_pct']:.1f} %" in texts(svg)
    assert texts(svg)[0] == f"{report['program']} on trn2.3xlarge"
    assert len(data) < 250_000


def test_png_is_the_same_drawing(draw):
    svg = ET.fromstring(draw("small")[0])
    image = pixels(draw("small", "out.png")[0])
    assert image.shape == (2 * float(svg.get("height")), 2 * float(svg.get("width")), 3)
    for e in svg.iter(SVG + "rect"):
        if e.get("class") in ("scalar", "dma") and float(e.get("width")) > 3:
            x, y = float(e.get("x")) + float(e.get("width")) / 4, float(e.get("y")) + float(e.get("height")) / 4
            want = {"scalar": (0, 0x9E, 0x73), "dma": (0xD5, 0x5E, 0)}[e.get("class")]
            assert tuple(image[int(2 * y), int(2 * x)]) == want
    dark = (image.sum(2) < 200).mean()
    assert 0.0005 < dark < 0.05  # letters are there


def test_small_shows_each_instruction(draw):
    data, report, _ = draw("small")
    svg = ET.fromstring(data)
    titles = [t.text for t in svg.iter(SVG + "title")]
    assert sum("dma_copy" in t for t in titles) == 4  # two issues, two transfers
    assert sum("activation" in t for t in titles) == 2  # its table, itself
    moves = [r for r in svg.iter(SVG + "rect") if r.get("class") == "dma" and r.find(SVG + "title") is not None]
    assert len({r.get("y") for r in moves}) == 2  # they overlap in time, not on paper
    assert {"launch", "table", "queue 1", "dma", "scalar"} <= set(texts(svg))


def test_window(draw):
    data, _, said = draw("matmul_tiled", "out.svg", "--window", "20000:30000")
    assert "shown: 20.0 µs to 30.0 µs" in texts(ET.fromstring(data))[1]
    assert "it shows 20.0 µs to 30.0 µs of 39.6 ms" in said


def test_two_cores_and_odd_names(trine, tmp_path):
    program = tmp_path / "two.tasm"
    program.write_text(
        "program two\ncores 2\ntensor a sbuf f32[128,64] at 0:0\ntensor b sbuf f32[128,64] at 1.0:0\n"
        "stream vector\n  memset dst=a value=1 at \"a<b>&c.py\":3\nstream 1.vector\n  memset dst=b value=1\n"
    )
    subprocess.run([trine, "run", program, "--instance", "trn2.3xlarge", "--picture", tmp_path / "t.svg"], check=True)
    svg = ET.fromstring((tmp_path / "t.svg").read_text())
    assert {"core 0", "core 1"} <= set(texts(svg)) and texts(svg).count("vector") >= 2


@pytest.mark.parametrize(
    "options, error",
    [
        (["--picture", "x.gif"], "expected a name that ends in .svg or .png"),
        (["--picture", "x.svg", "--window", "1e9:2e9"], "the window begins at 1.00 s, after the program's end at"),
        (["--picture", "no/such/x.svg"], "cannot create no/such/x.svg"),
    ],
)
def test_errors(trine, tmp_path, options, error):
    (tmp_path / "small.tasm").write_text(SMALL)
    done = subprocess.run([trine, "run", "small.tasm", *options], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode in (2, 3) and error in done.stderr

"""Follows a Markdown page as a reader would, so that a page that is wrong fails. docs/testing.md lists the marks.

A fenced block `file=PATH` is written, `sh test` is run, every line of an `output` block must stand in what the last run
printed, and every line of a `shows` block too, up to spaces and with numbers that may differ by a quarter: times move
a little with the model of the chip, words do not.
"""

import re
import subprocess
from pathlib import Path

BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
FAR = 0.25  # by which a number that a page shows may differ, of the larger


def skeleton(line: str) -> tuple[str, list[float]]:
    """The line with one space between words and # for each number, and the numbers."""
    line = " ".join(line.split())
    return NUMBER.sub("#", line), [float(n.replace(",", "")) for n in NUMBER.findall(line)]


def is_shown(line: str, printed: str) -> bool:
    words, numbers = skeleton(line)

    def near(a, b):
        return abs(a - b) <= FAR * max(abs(a), abs(b))

    for candidate in printed.splitlines():
        found, others = skeleton(candidate)
        if found == words and all(near(a, b) for a, b in zip(numbers, others)):
            return True
    return False


def run_page(text: str, folder: Path, env: dict[str, str]) -> int:
    """Follows the page in a folder; returns how many blocks it ran or compared."""
    printed, steps = "", 0
    for _, info, body in BLOCK.findall(text):
        if info.startswith("file="):
            target = folder / info.removeprefix("file=")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body)
        elif info == "test":
            command = ["bash", "-euo", "pipefail", "-c", body]
            done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            printed, steps = done.stdout, steps + 1
            assert done.returncode == 0, f"{body}\n{printed}"
        elif info in ("output", "shows"):
            steps += 1
            for line in filter(str.strip, body.splitlines()):
                there = line in printed if info == "output" else is_shown(line, printed)
                assert there, f"missing: {line}\nin:\n{printed}"
    return steps

"""Runs docs/howto/*.md in a copy of the repository, so that a page that is wrong fails.

A fenced block `file=PATH` is written to the copy, `sh test` is run there (make build works: the copy borrows .venv and
the compiler cache), and every line of an `output` block must appear in what the last `sh test` printed.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.M | re.S)


def copy_of_repository(to: Path) -> None:
    """What git tracks or would track, with its times, so that nothing in .venv looks old."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_page(text: str, folder: Path, env: dict[str, str]) -> int:
    """Follows the page; returns how many blocks it ran or compared."""
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
        elif info == "output":
            steps += 1
            for line in body.splitlines():
                assert line in printed, f"missing: {line}\nin:\n{printed}"
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted((ROOT / "docs/howto").glob("*.md")), ids=lambda p: p.stem)
def test_page(page, tmp_path):
    copy_of_repository(tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRINE_")}
    env["PYTHONPATH"] = str(tmp_path / "python")
    # .venv is borrowed link by link: `make build` must replace its own links, not ours.
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in os.listdir(ROOT / ".venv"):
        if name != "bin":
            (tmp_path / ".venv" / name).symlink_to(ROOT / ".venv" / name)
    for name in os.listdir(ROOT / ".venv/bin"):
        (tmp_path / ".venv/bin" / name).symlink_to(ROOT / ".venv/bin" / name)
    assert run_page(page.read_text(), tmp_path, env) > 0, "the page runs nothing"


def test_a_wrong_page_fails(tmp_path):
    page = "```json file=a/b.txt\nhello\n```\n```sh test\ncat a/b.txt\n```\n```text output\nhello\n```\n"
    assert run_page(page, tmp_path, dict(os.environ)) == 2
    with pytest.raises(AssertionError, match="missing: bye"):
        run_page(page.replace("output\nhello", "output\nbye"), tmp_path, dict(os.environ))
    with pytest.raises(AssertionError):
        run_page("```sh test\nfalse\n```\n", tmp_path, dict(os.environ))

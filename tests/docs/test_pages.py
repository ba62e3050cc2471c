"""README and tutorials are followed as written, in an empty folder with the built command and package at hand."""

import os
import sys
from pathlib import Path

import pytest
from pages import run_page, skeleton

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]


def surroundings(folder: Path, trine: Path) -> dict[str, str]:
    """A user's environment: no choices of Trine's, a home of its own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    path = f"{trine.parent}:{Path(sys.executable).parent}:{env['PATH']}"
    package = os.environ.get("PYTHONPATH") or str(ROOT / "python")
    return env | {"PATH": path, "PYTHONPATH": package, "HOME": str(folder / ".home"), "VIRTUAL_ENV": sys.prefix}


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem, marks=[] if p.name == "README.md" else pytest.mark.slow) for p in PAGES])
def test_page(page, tmp_path, trine):
    assert run_page(page.read_text(), tmp_path, surroundings(tmp_path, trine)) > 2, "the page runs nothing"


def test_a_wrong_page_fails(tmp_path):
    page = "```json file=a/b.txt\nhello 100\n```\n```sh test\ncat a/b.txt\n```\n```text output\nhello\n```\n"
    assert run_page(page, tmp_path, dict(os.environ)) == 2
    with pytest.raises(AssertionError, match="missing: bye"):
        run_page(page.replace("output\nhello", "output\nbye"), tmp_path, dict(os.environ))
    with pytest.raises(AssertionError):
        run_page("```sh test\nfalse\n```\n", tmp_path, dict(os.environ))
    assert run_page(page.replace("output\nhello", "shows\nhello   90"), tmp_path, dict(os.environ)) == 2
    for wrong in ("hello 60", "hallo 100", "hello 100 1"):
        with pytest.raises(AssertionError, match="missing"):
            run_page(page.replace("output\nhello", f"shows\n{wrong}"), tmp_path, dict(os.environ))


def test_numbers_are_told_from_words():
    assert skeleton("trn2.3xlarge  6.43 ms (3.93 ms–10.5 ms)  1,243") == ("trn2.3xlarge # ms (# ms–# ms) #", [6.43, 3.93, 10.5, 1243])

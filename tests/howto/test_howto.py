"""Runs docs/howto/*.md in a copy of the repository, so that a page that is wrong fails.

`make build` works there: the copy borrows .venv and the compiler cache, and what is built where a page builds nothing.
tests/pages.py says how a page is followed.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pages import run_page

ROOT = Path(__file__).resolve().parent.parent.parent


def copy_of_repository(to: Path) -> None:
    """What git tracks or would track, with its times, so that nothing in .venv looks old."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def borrow_build(to: Path) -> None:
    """What is built here, for pages that change Python alone."""
    (to / "build").symlink_to(ROOT / "build")
    for library in (ROOT / "python/trine").glob("*.so"):
        (to / "python/trine" / library.name).symlink_to(library)


# The editable install's finder, which comes before PYTHONPATH, would find the package of this repository.
SITE = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_skbc")]
"""


def builds(page: Path) -> bool:
    return bool(re.search(r"^(make|cmake) ", page.read_text(), re.M))


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted((ROOT / "docs/howto").glob("*.md")), ids=lambda p: p.stem)
def test_page(page, tmp_path):
    if builds(page) and "TRINE_TEST_HOWTO" not in os.environ:
        pytest.skip("builds the whole program: make test-howto")
    copy_of_repository(tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRINE_")}
    (tmp_path / ".site").mkdir()
    (tmp_path / ".site/sitecustomize.py").write_text(SITE)
    env["PYTHONPATH"] = os.pathsep.join(str(tmp_path / folder) for folder in (".site", "python", "python/compat"))
    # .venv is borrowed link by link: `make build` must replace its own links, not ours.
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in os.listdir(ROOT / ".venv"):
        if name != "bin":
            (tmp_path / ".venv" / name).symlink_to(ROOT / ".venv" / name)
    for name in os.listdir(ROOT / ".venv/bin"):
        (tmp_path / ".venv/bin" / name).symlink_to(ROOT / ".venv/bin" / name)
    if not builds(page):
        borrow_build(tmp_path)
    assert run_page(page.read_text(), tmp_path, env) > 0, "the page runs nothing"

"""Generated pages: docs/generated.txt names each with the command that prints it.

Without arguments compares and fails on a page that is out of step; --update rewrites it, or only the pages named.
"""

import argparse
import difflib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pages(text: str) -> dict[str, str]:
    """`path: command` lines; # starts a comment."""
    rows = (line.split("#")[0].strip() for line in text.splitlines())
    return {path.strip(): command.strip() for path, command in (row.split(":", 1) for row in rows if row)}


def generate(command: str) -> str:
    path = f"{ROOT / 'build'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(command, shell=True, cwd=ROOT, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("pages", nargs="*")
    asked = parser.parse_args()
    known = pages((ROOT / "docs/generated.txt").read_text())
    if unknown := set(asked.pages) - set(known):
        parser.error(f"{', '.join(sorted(unknown))}: not in docs/generated.txt")
    late = 0
    for name in asked.pages or known:
        page, text = ROOT / name, generate(known[name])
        before = page.read_text() if page.exists() else ""
        if text == before:
            continue
        if asked.update:
            page.write_text(text)
            continue
        late += 1
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), text.splitlines(True), name, "generated now", n=1))
    print(f"generated pages: {late} out of step; run `make docs`" if late else "generated pages: in step")
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())

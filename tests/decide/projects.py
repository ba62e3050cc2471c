"""Downloads the projects of projects.txt and needs.txt from PyPI into build/projects. `make test-audit`.

Files come from the index that pip is set up for, are checked by hash and unpacked; nothing is built or installed, as pip would run
their setup scripts to know what they need.
"""

import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build/projects"


def index() -> str:
    from pip._internal.models.index import PyPI

    asked = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or PyPI.simple_url


def listed() -> list[tuple[str, str, str, str]]:
    """(name, version, file, SHA-256)"""
    rows = (HERE / "projects.txt").read_text().splitlines()
    return [tuple(row.split()) for row in rows if row and not row.startswith("#")]


def fetch(name: str, file: str, digest: str) -> bytes:
    page_at = f"{index().rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    page = urllib.request.urlopen(page_at).read().decode()
    for link in re.findall(r"""href=["']([^"']+)["']""", page):
        link = html.unescape(link).partition("#")[0]
        if urllib.parse.unquote(link).rsplit("/", 1)[-1] == file:
            data = urllib.request.urlopen(urllib.parse.urljoin(page_at, link)).read()
            if hashlib.sha256(data).hexdigest() != digest:
                raise SystemExit(f"{file}: found SHA-256 {hashlib.sha256(data).hexdigest()}, expected {digest}")
            return data
    raise SystemExit(f"{page_at} lists no {file}")


def unpack(path: Path, into: Path):
    into.mkdir(parents=True)
    if path.suffix == ".whl":
        zipfile.ZipFile(path).extractall(into)
        return
    with tarfile.open(path) as tar:
        tar.extractall(into, filter="data")
    (only,) = into.iterdir()  # sdists have one folder
    for entry in only.iterdir():
        entry.rename(into / entry.name)
    only.rmdir()


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, version, file, digest in listed():
        folder = FOLDER / f"{name}-{version}"
        if folder.exists():
            continue
        path, unpacked = FOLDER / file, FOLDER / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was ended
        path.write_bytes(fetch(name, file, digest))
        unpack(path, unpacked)
        unpacked.rename(folder)
        path.unlink()
        print(folder.name, flush=True)
    if not (FOLDER / "needs").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", FOLDER / "needs", "-r", HERE / "needs.txt"]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

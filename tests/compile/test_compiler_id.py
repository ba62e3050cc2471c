"""The hash of the compiler's sources, part of every key of the cache: it takes in every folder that decides a program."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = [line.partition(":")[0] for line in (ROOT / "src/layers.txt").read_text().splitlines() if re.match(r"[a-z]+:", line)]
# What runs or shows a program and decides none; a new folder of src decides until it stands here.
NOT = {"host", "run", "serve", "tools"}
DECIDING = [f for f in FOLDERS if f not in NOT]
ROOMS = ["front/stablehlo", "front/onnx", "front/nki", "run/drivers/timed"]  # and these below folders


def id_of(root, out, build=""):
    script = ROOT / "cmake/source_id.cmake"
    subprocess.run(["cmake", f"-DOUT={out}", f"-DROOT={root}", f"-DBUILD={build}", "-P", str(script)], check=True)
    return re.search(r'return "([0-9a-f]{64})"', Path(out).read_text())[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "src", root / "src")
    return root


def changed(copy, file, out):
    """The hash with one more line in a file."""
    before = file.read_bytes()
    try:
        file.write_bytes(before + b"// one more line\n")
        return id_of(copy, out)
    finally:
        file.write_bytes(before)


def source_in(folder):
    """A file of the folder itself, else of the first one below it."""
    return next(iter(sorted(folder.glob("*.cpp"))), None) or sorted(folder.rglob("*.cpp"))[0]


@pytest.mark.parametrize("folder", DECIDING + ROOMS)
def test_a_change_in_a_deciding_folder_is_another_compiler(copy, tmp_path, folder):
    assert changed(copy, source_in(copy / "src" / folder), tmp_path / "id.cpp") != id_of(copy, tmp_path / "id.cpp")


def test_a_new_header_is_another_compiler(copy, tmp_path):
    before = id_of(copy, tmp_path / "id.cpp")
    (copy / "src/front/new.h").write_text("// new\n")
    assert id_of(copy, tmp_path / "id.cpp") != before
    (copy / "src/front/new.h").unlink()


@pytest.mark.parametrize("folder", ["host", "tools", "api/python", "api/pjrt"])
def test_what_only_runs_or_shows_programs_is_the_same_compiler(copy, tmp_path, folder):
    assert changed(copy, source_in(copy / "src" / folder), tmp_path / "id.cpp") == id_of(copy, tmp_path / "id.cpp")


def test_where_the_sources_lie_does_not_count_and_who_compiled_them_does(copy, tmp_path):
    out = tmp_path / "id.cpp"
    assert id_of(copy, out) == id_of(ROOT, out)
    assert id_of(copy, out, "GNU 12") != id_of(copy, out, "GNU 13")


def test_the_build_makes_it_again_when_a_deciding_file_changes():
    ninja = ROOT / "build/build.ninja"
    if not ninja.exists():
        pytest.skip("nothing is built in build/")
    (after,) = re.findall(r"^build compiler_id\.cpp [^:]*: CUSTOM_COMMAND (.*)$", ninja.read_text(), re.M)
    found = {str(Path(word).relative_to(ROOT)) for word in after.split() if Path(word).is_relative_to(ROOT)}
    for folder in DECIDING + ROOMS:
        assert str(source_in(ROOT / "src" / folder).relative_to(ROOT)) in found, folder

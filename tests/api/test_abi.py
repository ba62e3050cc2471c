"""Our declarations of the PJRT C API against the API's own header, which PyPI's tensorflow-cpu carries: every struct's
size, every field's offset, the order of the table. Slow: the wheel is 270 MB; skipped where it cannot be had."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

WHEEL = "tensorflow-cpu==2.21.0"  # PJRT 0.90
HEADER = "tensorflow/include/xla/pjrt/c/pjrt_c_api.h"
ROOT = Path(__file__).resolve().parents[2]
OURS = sorted((ROOT / "src/api/pjrt").glob("abi*.h"))


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, WHEEL], capture_output=True)
    wheels = list(folder.glob("*.whl"))
    if got.returncode or not wheels:
        pytest.skip(f"{WHEEL} cannot be had here")
    with zipfile.ZipFile(wheels[0]) as wheel:
        path = folder / "pjrt_c_api.h"
        path.write_bytes(wheel.read(HEADER))
    wheels[0].unlink()
    return path


def our_name(theirs):
    name = theirs.removeprefix("PJRT_").replace("AsyncHostToDeviceTransferManager", "TransferManager")
    return name.replace("_", "")


def our_structs():
    """By name: the fields, in order; what begins every struct is inherited."""
    text = "\n".join(path.read_text() for path in OURS)
    text = re.sub(r"//[^\n]*", "", text)
    structs = {}
    text = re.sub(r"\(\*(\w+)\)\([^;]*\);", r"\1;", text)  # pointers to functions
    for name, base, body in re.findall(r"struct (\w+)( : Args)? \{(\}|.*?\n\});", text, re.DOTALL):
        fields = re.findall(r"(\w+)(?:\[\w+\])?(?: = [^;]*)?;", body)
        structs[name] = (["struct_size", "extension_start"] if base else []) + fields
    return structs


@pytest.mark.slow
def test_structs_lie_as_the_header_says(header, tmp_path):
    ours, lines, seen = our_structs(), [], set()
    for theirs in re.findall(r"struct (PJRT_\w+) \{", header.read_text()):
        name = our_name(theirs)
        if name not in ours or name in ("Api", "Event"):
            continue
        seen.add(name)
        lines.append(f'static_assert(sizeof(our::{name}) == sizeof({theirs}), "{theirs}");')
        lines += [f'static_assert(offsetof(our::{name}, {f}) == offsetof({theirs}, {f}), "{theirs}.{f}");' for f in ours[name]]
    missing = {n for n in ours if n.endswith("Args") and n != "Args"} - seen
    assert not missing, f"no struct of the header is meant by {sorted(missing)}"
    includes = "".join(f'#include "api/pjrt/{path.name}"\n' for path in OURS)
    source = tmp_path / "layout.cpp"
    source.write_text(f'#include "{header}"\n{includes}namespace our = trine::api::pjrt;\n' + "\n".join(lines) + "\n")
    done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{ROOT}/src", source],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "error" in line)[:4000]
    assert len(lines) > 500


@pytest.mark.slow
def test_the_table_is_in_the_headers_order(header):
    theirs = re.findall(r"_PJRT_API_STRUCT_FIELD\((PJRT_\w+)\);", header.read_text())
    ours = re.findall(r'\{"(PJRT_\w+)"', (ROOT / "src/api/pjrt/slots.cpp").read_text())
    assert ours == theirs[: len(ours)] and len(ours) == len(theirs)

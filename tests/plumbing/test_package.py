"""The package as a user gets it: importable, versioned, and a wheel that carries module and command."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import trine

ROOT = Path(__file__).resolve().parent.parent.parent


def test_version_is_the_one_of_the_build():
    assert trine.__version__ == re.search(r"project\(trine VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


@pytest.mark.slow
def test_the_wheel_carries_module_and_command(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, "-m", *command], check=True)
    names = zipfile.ZipFile(next(tmp_path.glob("trine-*.whl"))).namelist()
    for wanted in (r"trine/__init__\.py", r"trine/py\.typed", r"trine/_core\..*\.so", r".*/scripts/trine", r".*/scripts/neuron-ls"):
        assert any(re.fullmatch(wanted, name) for name in names), wanted

"""The package as a user gets it: importable, versioned, and a wheel that carries all it must. `make test-wheel` uses one."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import trine

ROOT = Path(__file__).resolve().parent.parent.parent

WANTED = (r"trine/__init__\.py", r"trine/py\.typed", r"trine/_core\..*\.so", r"trine/trine_pjrt\.so", r"trine/models/configs/bert-base\.json",
          r"trine/estimate/calibration\.json", r".*/scripts/trine", r".*/scripts/neuron-ls", r".*/share/man/man1/trine-ls\.1",
          r".*/share/man/man1/neuron-ls\.1", r".*/share/bash-completion/completions/trine", r".*/share/zsh/site-functions/_trine",
          r".*/share/fish/vendor_completions\.d/trine\.fish")  # fmt: skip


def test_version_is_the_one_of_the_build():
    assert trine.__version__ == re.search(r"project\(trine VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


@pytest.mark.slow
def test_the_wheel_carries_what_it_must(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, "-m", *command], check=True)
    names = zipfile.ZipFile(next(tmp_path.glob("trine-*.whl"))).namelist()
    for wanted in WANTED:
        assert any(re.fullmatch(wanted, name) for name in names), wanted
    assert sum(name.startswith("trine/_core") for name in names) == 1, "what make build put beside the sources is in it too"

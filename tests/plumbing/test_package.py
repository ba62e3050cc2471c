"""The package as a user gets it: importable, versioned, and a wheel that carries all it must. `make test-wheel` uses one."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import trine
from trine import progress
from trine.torch import installed

ROOT = Path(__file__).resolve().parent.parent.parent

WANTED = (r"trine/__init__\.py", r"trine/py\.typed", r"trine/_core\..*\.so", r"trine/_torch\..*\.so", r"trine/trine_pjrt\.so", r"trine/models/configs/bert-base\.json",
          r"trine/estimate/calibration\.json", r".*/scripts/trine", r".*/scripts/neuron-ls", r".*/share/man/man1/trine-ls\.1",
          r".*/share/man/man1/neuron-ls\.1", r".*/share/bash-completion/completions/trine", r".*/share/zsh/site-functions/_trine",
          r".*/share/fish/vendor_completions\.d/trine\.fish")  # fmt: skip


def test_version_is_the_one_of_the_build():
    assert trine.__version__ == re.search(r"project\(trine VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


@pytest.mark.parametrize("found, built, says", [
    (None, "2.13.0", r"found no torch, expected 2\.13\.0: .* -m pip install 'torch==2\.13\.0'"),
    ("2.14.0+cu130", "2.13.0", r"found torch 2\.14\.0\+cu130, expected 2\.13\.0, .* -m pip install 'torch==2\.13\.0'"),
    ("2.13.0", "", r"this Trine was built without torch"),
    ("2.13.0+cpu", "2.13.0", None),
])  # fmt: skip
def test_a_torch_that_does_not_fit_is_one_sentence(monkeypatch, found, built, says):
    monkeypatch.setattr(installed, "version", {"torch": found}.get)
    monkeypatch.setattr(installed._core, "torch_version", built)
    if says is None:
        return installed.need_device()
    with pytest.raises(ImportError, match=says) as e:
        installed.need_device()
    assert "\n" not in str(e.value)


def test_another_torch_neuronx_over_ours_is_said(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_shown", set())
    monkeypatch.setattr(installed, "version", {"trine-compat": "0.1.0", "torch-neuronx": "1.0"}.get)
    installed.say_what_was_replaced()
    said = capsys.readouterr().err
    assert "torch-neuronx 1.0 of PyPI, which is a placeholder, over the torch_neuronx of trine-compat" in said and "uninstall torch-neuronx" in said


@pytest.mark.slow
def test_the_wheel_carries_what_it_must(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, "-m", *command], check=True)
    names = zipfile.ZipFile(next(tmp_path.glob("trine-*.whl"))).namelist()
    for wanted in WANTED:
        assert any(re.fullmatch(wanted, name) for name in names), wanted
    assert sum(name.startswith("trine/_core") for name in names) == 1, "what make build put beside the sources is in it too"

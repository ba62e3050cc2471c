"""Which Python the command becomes, and what it says where a package is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(folder):
    """One with a Python that only says which it is, and the command as a link to the build, as `make build` puts it there."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    (folder / "bin/python").write_text(f"#!/bin/sh\necho {folder.name}\n")
    (folder / "bin/python").chmod(0o755)
    (folder / "bin/trine").symlink_to(shutil.which("trine"))
    return folder


def test_an_environment_that_is_not_activated_uses_its_own_python(tmp_path):
    mine, other = environment(tmp_path / "mine"), environment(tmp_path / "other")
    for extra in ({}, {"VIRTUAL_ENV": str(other)}):
        said = subprocess.run([mine / "bin/trine", "estimate", "--config", "bert-base"], env=os.environ | extra, capture_output=True, text=True)
        assert said.stdout == "mine\n", said
    said = subprocess.run(["trine", "estimate", "--config", "bert-base"], env=os.environ | {"PATH": f"{mine}/bin:{os.environ['PATH']}"}, capture_output=True, text=True)
    assert said.stdout == "mine\n", said


def test_the_advice_for_a_missing_package_is_what_trine_asks_for():
    code = ("import sys; sys.modules['jax'] = None\n"
            "from trine import command; sys.exit(command.main(sys.argv[1]))")  # fmt: skip
    asked = '{"options": {}, "words": [], "typed": [], "command": "estimate", "module": "trine.models.layers", "trine": ""}'
    done = subprocess.run([sys.executable, "-c", code, asked], capture_output=True, text=True)
    wanted = next(line.split('"')[1] for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("jax = "))
    assert done.returncode == 5 and done.stderr == f"trine estimate: {sys.executable} has no jax; try  {sys.executable} -m pip install '{wanted}'\n"

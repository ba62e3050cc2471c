"""The examples run as they are, small, and agree with JAX's CPU backend: each exits with an error where it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/jax"

RUNS = [
    ("bert.py --tiny --batch 2 --seq 64", {}),
    ("gpt2_generate.py --tiny --prompt 8 --count 8", {}),
    ("resnet50.py --tiny --size 64", {}),
    ("unet.py --size 8 --width 32 --steps 2 --depth 1", {}),
    ("sharded.py", {"TRINE_INSTANCE": "trn1.32xlarge"}),
    ("distributed.py --processes 2", {}),
    ("train_llama.py --steps 12 --batch 2 --seq 64 --compare 12 --picture {tmp}/loss.svg", {}),
]


@pytest.mark.parametrize("command,env", RUNS, ids=[c.split()[0] for c, _ in RUNS])
def test_example(command, env, tmp_path):
    words = command.format(tmp=tmp_path).split()
    done = subprocess.run([sys.executable, str(EXAMPLES / words[0]), *words[1:]], env=os.environ | env,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

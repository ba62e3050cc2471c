"""`neuronx-cc` over `trine compile`, `python -m trine`, what the package shows of itself and what the help promises."""

import os
import re
import subprocess
import sys

import pytest

MODEL = """module @small {
  func.func public @main(%x: tensor<128x64xf32>, %w: tensor<64x32xf32>) -> tensor<128x32xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
    return %0 : tensor<128x32xf32>
  }
}
"""


@pytest.fixture
def shell(tmp_path, trine):
    env = os.environ | {"PATH": f"{trine.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}

    def run(*words):
        return subprocess.run([str(w) for w in words], cwd=tmp_path, env=env, capture_output=True, text=True)

    (tmp_path / "m.stablehlo").write_text(MODEL)
    return run


def cc(shell, *words):
    return shell(sys.executable, "-m", "trine.neuronx_cc", *words)


def test_a_model_is_compiled_under_the_options_of_neurons_compiler(shell, trine, tmp_path):
    done = cc(shell, "compile", "m.stablehlo", "--framework", "XLA", "--target=trn2", "--model-type", "transformer", "-O1",
              "--auto-cast", "matmult", "--auto-cast-type=fp16", "--output", "m.neff", "--logfile", "log.txt")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--model-type, --optlevel have no effect here" in done.stderr
    assert done.stderr.endswith("Compiler status PASS\n") and (tmp_path / "log.txt").read_text() == done.stderr
    assert "on trn2.3xlarge, one core" in shell(trine, "run", "m.neff").stdout


def test_an_hlo_module_is_read(shell, tmp_path):
    pytest.importorskip("jax")
    make = """
import jax, jax.numpy as jnp
shape = jax.ShapeDtypeStruct((128, 64), jnp.float32)
lowered = jax.jit(jnp.tanh).lower(shape)
open("m.hlo_module.pb", "wb").write(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
"""
    assert shell(sys.executable, "-c", make).returncode == 0
    done = cc(shell, "compile", "m.hlo_module.pb", "--target", "trn1")
    assert done.returncode == 0 and (tmp_path / "file.neff").exists(), done.stderr


@pytest.mark.parametrize("words, code, says", [
    (["compile", "nothing.pb"], 5, "cannot read nothing.pb: No such file"),
    (["compile", "broken.pb"], 3, "found no HLO module in broken.pb"),
    (["compile", "m.stablehlo", "-lnc", "2"], 3, "for one core: give 1"),
    (["compile", "m.stablehlo", "--target", "trn9"], 2, "invalid choice: 'trn9'"),
    (["compile", "m.stablehlo", "--autocast", "all"], 2, "unrecognized arguments: --autocast"),
])  # fmt: skip
def test_what_cannot_be_compiled(shell, tmp_path, words, code, says):
    (tmp_path / "broken.pb").write_bytes(b"\n\x05small\x12\x00\xff\xff")
    done = cc(shell, *words)
    assert done.returncode == code and says in done.stderr


def test_the_operators_are_listed(shell):
    listed = cc(shell, "list-operators", "--framework", "XLA").stdout.split()
    assert {"add", "dot_general", "while"} <= set(listed)


def test_python_dash_m_trine_is_the_command(shell, trine):
    assert shell(sys.executable, "-m", "trine", "ls", "--json").stdout == shell(trine, "ls", "--json").stdout
    assert shell(sys.executable, "-m", "trine", "chps").returncode == 2


def test_dir_shows_what_there_is():
    import trine

    assert {"report", "explain", "timed", "estimate", "nki", "models", "Exact", "__version__"} <= set(dir(trine))
    assert not [name for name in dir(trine) if name.startswith("_") and not name.startswith("__")]
    assert all(hasattr(trine, name) for name in dir(trine))


def test_the_help_promises_only_what_exists(shell, trine):
    text = shell(trine, "--help").stdout
    commands = re.findall(r"^  ([a-z][\w-]*) {2,}", text, re.M)
    promised = re.findall(r"`(neuron[\w-]+)` is `trine ([\w-]+)`", text)
    assert promised and "neuron-X" not in text
    for name, command in promised:
        assert command in commands and shell(trine.parent / name, "--help").stdout == shell(trine, command, "--help").stdout
    assert all(shell(trine, command, "--help").returncode == 0 for command in commands)

"""Random programs give what XLA's CPU gives; the first seeds here, `make test-jax` goes on from any."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import random_control  # noqa: E402
import random_floats  # noqa: E402
import random_programs  # noqa: E402
import random_reference  # noqa: E402


def sweep(*words):
    done = subprocess.run([sys.executable, str(HERE / "random_sweep.py"), *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("of, programs", [("whole", 12), ("mesh", 4), ("floats", 20)])
def test_first_programs(of, programs):
    assert sweep("1", "--programs", str(programs), "--of", of).startswith(f"{programs} programs, 0 differ")


def test_a_difference_is_shrunk_to_the_step_that_has_it():
    """The fault is one of ours to make: every program that sorts."""
    maker = next(m for m in (random_programs.Maker(seed, random_control.STEPS) for seed in range(100)) if "lax.sort(" in m.make().function())
    least = random_programs.shrunk(maker.program, lambda p: "lax.sort(" in p.function())
    assert len([line for line in least.lines if line.value]) == 1
    exec(compile(least.snippet().split("args =")[0], "snippet", "exec"), {})


def test_a_program_that_ends_xla_is_named_and_the_next_one_runs(capfd):
    line = random_programs.Line(0, "__import__('os').abort()")
    deadly, good = random_programs.Program(5, False, lines=[line]), random_programs.Program(6, False, {"a": "np.ones(3)"}, results=["a"])
    reference = random_reference.Reference()
    reference.begin(deadly)
    assert reference.end() == "XLA's CPU ended its process: -6"
    assert "# seed 5: XLA's CPU ended its process: -6" in capfd.readouterr().out
    reference.begin(good)
    assert [r.tolist() for r in reference.end()] == [[1, 1, 1]]
    reference.stop()


def test_narrow_floats_are_judged_by_the_wide_ones():
    """XLA rounds gelu's sum of nearly one and minus one to f16; what does not is nearer."""
    program = random_floats.FloatProgram(1, False, {"a": "np.float16([-2.58203125]).astype(jnp.float16)"}, results=["a"], ulps=4)
    wanted, near, far = ([np.float16([v])] for v in (-0.01198, -0.01222, -0.0117))
    exact = [np.array([-0.012218524])]
    assert program.exact().inputs["a"].endswith(".astype(jnp.float16).astype(jnp.float32)")
    assert random_programs.difference(program, near, wanted) and not random_programs.difference(program, near, wanted, exact)
    assert random_programs.difference(program, far, wanted, exact)
    rounded, cut = [np.int32([216])], [np.int32([215])]  # of a square of 215.7 that XLA has rounded to bf16 before
    assert random_programs.difference(program, cut, rounded) and not random_programs.difference(program, cut, rounded, cut)
    assert random_programs.difference(program, [np.int32([217])], rounded, cut)

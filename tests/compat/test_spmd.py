"""torch_xla's SPMD: values on 8 and 32 virtual devices are the CPU's, and every device has its part."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")

HERE = Path(__file__).parent
CASES = """parts_lie_on_devices partial_and_whole products device_order middle_of_a_step transposed in_place data_parallel tensor_parallel
fully_sharded random_numbers torch_meshes""".split()


@pytest.fixture(scope="module", params=[8, 32])
def found(request):
    cores = "0-7" if request.param == 8 else "0-31"
    env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "NEURON_RT_VISIBLE_CORES": cores, "NEURON_CC_FLAGS": "-q"}
    done = subprocess.run([sys.executable, HERE / "spmd_cases.py", str(request.param)], env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_whole_tensors(case, found):
    assert set(found) == set(CASES)
    assert found[case] is None, found[case]

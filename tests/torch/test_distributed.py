"""torch.distributed's own parallelisms on `neuron`, unchanged: every rank's values against the same program on CPUs over gloo.

The programs are the functions of tests/torch/parallel; a group of them runs in one set of four processes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")

HERE = Path(__file__).parent / "parallel"
RANKS = 4
BF16 = {"data.fsdp2_mixed": 3e-3}  # other rounding points
GROUPS = {
    "data": "mesh ddp ddp_bucket_view fsdp1 fsdp1_hybrid fsdp2 fsdp2_divided fsdp2_mixed hsdp fsdp2_meta".split(),
    "tensors": "dtensor random_tensors tensor_parallel sequence_parallel parallel_loss two_dimensions prepared_input".split(),
    "stages": "gpipe one_forward_one_backward interleaved traced stages_of_shards".split(),
    "spread": "ring_attention gathered_attention sequences experts".split(),
    "stored": "resharded whole_state saved_async recomputed recomputed_in_shards".split(),
    "compiled": "layers_in_shards around_ddp tensor_parallel collectives".split(),
}


def ran(folder, cases, device, ranks=RANKS):
    """What each rank got, there and on the CPU: {case: tensors by name, or the text of an error}."""
    compat = [str(HERE.parents[2] / "python/compat")] if device == "xla" else []  # torch hands DTensor on `xla` to torch_xla
    env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *compat])}
    command = [sys.executable, HERE / "run.py", folder, str(ranks), "cpu", device, "--", *cases]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return [tuple(torch.load(folder / f"{where}-{rank}.pt") for where in ("cpu", device)) for rank in range(ranks)]


def check(case, want, got):
    assert not isinstance(want, str), f"{case} on the CPU:\n{want}"
    assert not isinstance(got, str), f"{case}:\n{got}"
    assert set(want) == set(got)
    for name, value in want.items():
        bound = BF16.get(case, 1e-5)
        torch.testing.assert_close(got[name], value, rtol=bound, atol=bound, msg=lambda m, name=name: f"{case}, {name}: {m}")


def compare(folder, cases, device):
    for want, got in ran(folder, cases, device):
        for case in cases:
            check(case, want[case], got[case])


@pytest.mark.parametrize("group", GROUPS)
def test_ranks_agree_with_gloo(group, tmp_path):
    compare(tmp_path, [f"{group}.{name}" for name in GROUPS[group]], "neuron")


def test_ranks_of_recorded_ops_agree_with_gloo(tmp_path):
    compare(tmp_path, ["data.ddp", "stages.gpipe", "stages.interleaved", "spread.experts", "stored.recomputed", "stored.resharded", "stored.saved_async", "stored.whole_state"], "xla")


def test_meshes_of_recorded_ops_agree_with_gloo(tmp_path):
    cases = "data.mesh data.fsdp2 data.hsdp tensors.dtensor tensors.tensor_parallel tensors.parallel_loss tensors.two_dimensions tensors.prepared_input"
    compare(tmp_path, cases.split(), "xla")

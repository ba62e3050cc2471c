"""accelerate's own test scripts on two ranks, as torchrun starts them: whether each succeeded.

Its test_script asks for fp16 too, which accelerate itself refuses on `neuron`. test_distributed_data_loop does not end on two CPU ranks,
whose inputs accelerate does not join: what does not end there is not asked here.
"""

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 240
SCRIPTS = ("test_ops", "test_sync", "test_distributed_data_loop")


def run(device):
    import accelerate.test_utils.scripts as scripts

    env = {**os.environ, "USE_TORCH_XLA": "0", "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": "1"}
    if device == "cpu":
        env |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "ACCELERATE_USE_CPU": "true"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    found = {name: succeeds([*launch, Path(scripts.__file__).with_name(f"{name}.py")], env) for name in SCRIPTS}
    return {name: ended for name, ended in found.items() if ended or device != "cpu"}


def succeeds(command, env):
    try:
        return subprocess.run(command, env=env, timeout=LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False

"""The plugin as JAX sees it: which devices there are, for which instance, and what they say of themselves."""

import json
import os
import subprocess
import sys

import jax
import pytest


def in_fresh_process(code: str, **env: str):
    """What `code` prints as JSON, in a process with its own devices."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "NEURON_"))}
    done = subprocess.run([sys.executable, "-c", code], env=clean | env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


DESCRIBE = """
import jax, json
d = jax.devices()
print(json.dumps([len(d), d[0].device_kind, d[-1].coords, d[-1].chip, d[0].memory_stats()["bytes_limit"]]))
"""

MACHINES = [
    ("trn1.2xlarge", {}, 2, "NC_v2", [0], 0, 16 << 30),
    ("trn1.32xlarge", {}, 32, "NC_v2", [3, 3], 15, 16 << 30),
    ("trn2.48xlarge", {}, 64, "NC_v3", [3, 3], 15, 24 << 30),
    ("trn2.48xlarge", {"NEURON_LOGICAL_NC_CONFIG": "1"}, 128, "NC_v3", [3, 3], 15, 12 << 30),
    ("inf1.xlarge", {}, 4, "NC_v1", [0], 0, 2 << 30),
]


@pytest.mark.parametrize("instance,env,count,kind,coords,chip,hbm", MACHINES)
def test_devices_follow_the_instance(instance, env, count, kind, coords, chip, hbm):
    assert in_fresh_process(DESCRIBE, TRINE_INSTANCE=instance, **env) == [count, kind, coords, chip, hbm]


def test_neuron_is_the_default_and_the_cpu_is_still_there():
    assert jax.default_backend() == "neuron"
    assert jax.devices()[0].platform == "neuron"
    assert jax.devices("cpu")[0].platform == "cpu"


def test_visible_cores():
    code = "import jax, json; print(json.dumps([d.id for d in jax.devices()]))"
    assert in_fresh_process(code, TRINE_INSTANCE="trn1.32xlarge", NEURON_RT_VISIBLE_CORES="2,4-6") == [2, 4, 5, 6]
    assert in_fresh_process(code, TRINE_INSTANCE="trn1.32xlarge", NEURON_RT_NUM_CORES="3") == [0, 1, 2]


def test_an_unknown_instance_names_those_there_are():
    code = """
import jax, json
try:
    jax.devices()
except RuntimeError as e:
    print(json.dumps(str(e)))
"""
    assert "trn1.2xlarge" in in_fresh_process(code, TRINE_INSTANCE="trn1.3xlarge")


def test_trine_imports_without_jax():
    code = "import sys, json; sys.modules['jax'] = None; import trine, trine.jax; print(json.dumps(trine.__version__))"
    assert in_fresh_process(code)

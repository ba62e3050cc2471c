"""Processes with counters in a folder of the test's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Field:
    """A folder of counters and the processes in it, which end with the test."""

    def __init__(self, folder, trine):
        self.folder, self.trine, self.processes = folder, str(trine), []
        self.environment = {**os.environ, "TRINE_COUNTERS": str(folder), "TRINE_INSTANCE": "trn1.2xlarge"}

    def start(self, kind, seconds=120, **more):
        """A workload, once it runs."""
        environment = {**self.environment, **({"JAX_PLATFORMS": "neuron"} if kind == "jax" else {}), **more}
        process = subprocess.Popen([sys.executable, str(HERE / "workload.py"), kind, str(seconds)], env=environment, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout.readline() == "running\n"
        return process

    def run(self, *words, **more):
        """A command's result."""
        return subprocess.run([self.trine, *words], env={**self.environment, **more}, capture_output=True, text=True, timeout=300)

    def end(self):
        """Kills what is left."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def field(tmp_path, request):
    made = Field(tmp_path / "counters", request.config.trine)
    yield made
    made.end()

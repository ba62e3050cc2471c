"""torch_xla's and NxD's layers over several processes; every file of cases is one start of its processes."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("trine._torch")
HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("ranks", HERE / "ranks.py")
ranks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ranks)

RUNS = {  # file, how many processes, settings, marks
    "xla": ("xla_cases.py", 4, {}, ()),
    "fsdp": ("fsdp_cases.py", 2, {}, ()),
    "nxd on the CPU": ("nxd_cases.py", 4, {"NXD_CPU_MODE": "1"}, ()),
    "nxd": ("nxd_cases.py", 4, {}, pytest.mark.slow),
    "pipeline": ("pipeline_cases.py", 4, {"NXD_CPU_MODE": "1"}, ()),
    "modules": ("module_cases.py", 4, {"NXD_CPU_MODE": "1"}, ()),
}


@pytest.mark.parametrize("run", [pytest.param(run, marks=marks) for run, (*_, marks) in RUNS.items()])
def test_ranks(run, tmp_path):
    file, count, settings, _ = RUNS[run]
    found = ranks.results(HERE / file, count, tmp_path, settings=settings)
    wrong = [f"{case}\n{why}" for case, why in found.items() if why]
    assert found and not wrong, "\n".join(wrong)

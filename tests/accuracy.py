"""`trine accuracy` with the kernels of examples/nki: traces those that a published measurement exists for. As a page
also whole models, by trine.estimate.

Options are those of `trine accuracy`. The kernels, their shapes and dtypes are in src/run/accuracy/measurements.json.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from trine.reports import compile_for

ROOT = Path(__file__).resolve().parent.parent


def kernel(name):
    """The kernel that `file.py::function` names in examples/nki."""
    file, function = name.split("::")
    spec = importlib.util.spec_from_file_location(f"accuracy_{file[:-3]}", ROOT / "examples/nki" / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def trace_all(folder):
    held = json.loads((ROOT / "src/run/accuracy/measurements.json").read_text())
    for name, k in held["kernels"].items():
        instance = next(r["instance"] for r in held["rows"] if r.get("program") == f"nki/{name}")
        compiled, _, _ = compile_for(kernel(k["kernel"]), [tuple(s) for s in k["shapes"]], {}, instance, k["dtype"])
        compiled.program.save(f"{folder}/{name}.trine")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        trace_all(folder)
        code = subprocess.run(["trine", "accuracy", "--kernels", folder, *sys.argv[1:]], check=False).returncode
    if code == 0 and "--markdown" in sys.argv:
        print(flush=True)
        code = subprocess.run([sys.executable, "-m", "trine.estimate.accuracy"], check=False).returncode
    sys.exit(code)

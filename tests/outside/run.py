"""Runs packages of others on Trine and on the CPU, and compares: `make outside [ONLY=<regex>] [UPDATE=1]`.

The packages are pinned in setup/outside.txt and live in an environment of their own, build-outside/venv, on top of .venv.
Each row of rows.py runs in two processes, one for each device; a test or an array that is right on the CPU and not here is a find.
UPDATE=1 writes docs/outside.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import numpy as np
from rows import ROWS

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build-outside"
PINS = ROOT / "setup/outside.txt"
PAGE = ROOT / "docs/outside.md"
LIMIT_S = 1500
DEVICES = ("cpu", "neuron")
PLATFORMS = {"cpu": "cpu", "neuron": "neuron,cpu"}  # as an installed plugin has it: the host's devices are there too


def environment() -> Path:
    """The Python of an environment that has the packages, and whatever .venv has."""
    venv, stamp = HOME / "venv", HOME / "installed.txt"
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        below = next((venv / "lib").glob("python*")) / "site-packages"
        outer = next((ROOT / ".venv/lib").glob("python*")) / "site-packages"
        (below / "outer.pth").write_text(f"import site; site.addsitedir({str(outer)!r})\n")
    if not stamp.exists() or stamp.read_text() != PINS.read_text():
        print("installing the packages of setup/outside.txt …", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", PINS], check=True)
        stamp.write_text(PINS.read_text())
    return python


def run_on(python, row, device) -> dict:
    """What one device gives: outcomes of tests by name, or arrays by name in a file; `error` where neither came."""
    out = HOME / f"{row.name}-{device}"
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env |= {"JAX_PLATFORMS": PLATFORMS[device], "PYTHONPATH": str(ROOT / "tests/outside"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if row.devices:
        env |= {"TRINE_INSTANCE": "trn1.32xlarge", "XLA_FLAGS": f"--xla_force_host_platform_device_count={row.devices}"}
    if row.tests:
        where = next((HOME / "venv/lib").glob("python*")) / "site-packages"
        report = out.with_suffix(".xml")
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-o", "python_files=*_test.py",
                   f"--junitxml={report}", *(["-k", row.deselect] if row.deselect else []), *(where / t for t in row.tests)]
    else:
        report = out.with_suffix(".npz")
        command = [python, Path(__file__).with_name("program.py"), row.program, device, report]
    report.unlink(missing_ok=True)
    start = time.monotonic()
    with open(out.with_suffix(".log"), "w") as log:
        try:
            subprocess.run(command, cwd=HOME, env=env, stdout=log, stderr=log, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return {"error": f"not over after {LIMIT_S} s", "seconds": LIMIT_S}
    found = {"seconds": time.monotonic() - start}
    if not report.exists():
        last = [line for line in out.with_suffix(".log").read_text().splitlines() if line.strip()]
        return found | {"error": last[-1] if last else "nothing was said"}
    return found | ({"tests": outcomes(report)} if row.tests else {"arrays": dict(np.load(report))})


def outcomes(report: Path) -> dict:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        found[f"{case.get('classname')}.{case.get('name')}"] = "failed" if bad else "skipped" if skipped else "passed"
    return found


def differs(a, b, tolerance) -> str:
    if a.shape != b.shape:
        return f"shape {b.shape}, on the CPU {a.shape}"
    if not np.issubdtype(a.dtype, np.inexact):
        return "" if np.array_equal(a, b) else f"{np.mean(a != b):.0%} of its elements"
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "not finite where the CPU's are, or the other way round"
    scale = max(float(np.abs(a[np.isfinite(a)]).max(initial=0)), 1e-30)
    error = float(np.abs(a - b)[np.isfinite(a)].max(initial=0)) / scale
    return f"{error:.1e} of the largest value" if error > tolerance else ""


def compare(row, cpu, here) -> dict:
    """Of what is right on the CPU: how much is right here, and what is not."""
    out = {"row": row.name, "cpu_s": cpu["seconds"], "here_s": here["seconds"], "finds": []}
    if "error" in cpu:
        return out | {"right": 0, "of": 0, "finds": [f"on the CPU too: {cpu['error']}"]}
    asked = {k: v for k, v in (cpu.get("tests") or cpu["arrays"]).items() if row.program or v == "passed"}
    if "error" in here:
        return out | {"right": 0, "of": len(asked), "finds": [here["error"]]}
    for name, value in asked.items():
        if row.tests:
            outcome = here["tests"].get(name, "not run")
            if outcome != "passed":
                out["finds"].append(f"{name}: {outcome}")
        elif name not in here["arrays"]:
            out["finds"].append(f"{name}: absent")
        elif why := differs(value, here["arrays"][name], row.tolerance):
            out["finds"].append(f"{name}: {why}")
    return out | {"right": len(asked) - len(out["finds"]), "of": len(asked)}


def page(results) -> str:
    """The page of these results; what was not run keeps the lines it has."""
    version = {line.split("==")[0]: line.split("==")[1] for line in PINS.read_text().splitlines() if "==" in line}
    for name in ("transformers", "diffusers"):
        version[name] = metadata.version(name)
    lines = [
        "# Programs of others",
        "",
        "Written by `make outside UPDATE=1`, which runs packages that nobody here wrote on a virtual NeuronCore and on the CPU, each by its",
        "own tests or in a program that uses it, and compares. A test counts if it passes on the CPU.",
        "",
        "| package | version | what runs | right | seconds, CPU | seconds, here |",
        "|---|---|---|--:|--:|--:|",
    ]
    written = PAGE.read_text().splitlines()
    finds = []
    for row in ROWS:
        r = results.get(row.name)
        if r is None:
            lines += [line for line in written if line.startswith(f"| {row.name} |")]
            finds += [line for line in written if line.startswith(f"- {row.name}: ")]
            continue
        of = next((v for k, v in version.items() if row.name.startswith(k) or k.endswith(row.name)), "")
        lines.append(f"| {row.name} | {of} | {row.says} | {r['right']} of {r['of']} | {r['cpu_s']:.0f} | {r['here_s']:.0f} |")
        finds += [f"- {row.name}: {find}" for find in r["finds"]]
    lines += ["", "## What is not right", "", *(finds or ["Nothing."])]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="example: tests/outside/run.py --only 'optax|peft'")
    parser.add_argument("--only", default="", help="regular expression of rows' names")
    parser.add_argument("--update", action="store_true", help="write docs/outside.md from this run, the results on record and the page as it is")
    asked = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    python = environment()
    record = HOME / "results.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    bad = 0
    for row in (r for r in ROWS if re.search(asked.only, r.name)):
        print(f"{row.name} …", end=" ", flush=True)
        found = compare(row, *(run_on(python, row, device) for device in DEVICES))
        results[row.name] = found
        record.write_text(json.dumps(results, indent=1))
        bad += bool(found["finds"])
        print(f"{found['right']} of {found['of']} right, {found['here_s']:.0f} s, CPU {found['cpu_s']:.0f} s", flush=True)
        for find in found["finds"][:20]:
            print(f"  {find}"[:200])
    if asked.update:
        PAGE.write_text(page(results))
        print(f"→ {PAGE.relative_to(ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

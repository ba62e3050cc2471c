"""Measures models on a GPU machine: one file, which needs PyTorch (or JAX for a model of your own) and nothing else.

    python3 gpu_baseline.py --out baseline.json            all rows, at most --budget seconds; started again it goes on
    python3 gpu_baseline.py --rows 'bert.*/bf16' --out bert.json
    python3 gpu_baseline.py --model model.py:make --out model.json   make() returns (callable, tuple of its inputs)

Each row is a model, a phase, a number format and a way to run it; it is measured in a worker process, so that a crash or a
lack of memory is a row with its error. The JSON is written after every row. Weights and inputs come from integer hashes of
their indices (hashed), so any machine makes the same ones; sampled outputs are in the .npz beside the JSON, by row.
Written by `trine baseline`.
"""

import argparse
import contextlib
import datetime
import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import select
import shutil
import struct
import subprocess
import sys
import time
import zipfile

from trine.decide.baseline.measure import difference, measure
from trine.decide.baseline.meter import Meter
from trine.decide.baseline.models import torch
from trine.decide.baseline.rows import MODES, WORKLOADS, all_rows, workload_name

VERSION = 1


def machine_facts(device, meter):
    facts = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count(), "device": device}
    with contextlib.suppress(OSError):
        with open("/proc/cpuinfo") as text:
            facts["cpu"] = next((line.split(":", 1)[1].strip() for line in text if line.startswith("model name")), None)
    if torch is not None:
        facts["torch"], facts["cuda"] = torch.__version__, torch.version.cuda
    if importlib.util.find_spec("jax"):
        facts["jax"] = importlib.metadata.version("jax")
    if importlib.util.find_spec("triton"):
        facts["triton"] = importlib.metadata.version("triton")
    if device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        facts.update(gpu=gpu.name, gpu_memory_bytes=gpu.total_memory, multiprocessors=gpu.multi_processor_count)
        facts["cudnn"] = torch.backends.cudnn.version()
        asked = ["nvidia-smi", "--query-gpu=driver_version,power.limit,clocks.max.sm", "--format=csv,noheader,nounits", "-i", "0"]
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            parts = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.split(",")
            facts["driver"], facts["power_limit_watts"], facts["clock_max_mhz"] = parts[0].strip(), float(parts[1]), float(parts[2])
        energy = meter.begin()
        time.sleep(1.0)
        facts["idle_watts"] = meter.watts(energy, 1.0)
    facts["power_from"] = meter.source
    return facts


def worker(device):
    """Reads jobs from stdin, one JSON line each, and answers each with one; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    meter, references = Meter(device), {}

    def answer(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    answer({"machine": machine_facts(device, meter)})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            row = measure(job, meter)
            key = job["row"].rsplit("/", 1)[0]
            if job["mode"] == "eager":
                references[key] = row["outputs"]
            elif key in references:
                row["difference_from_eager"] = difference(row["outputs"], references[key])
            answer({"ok": True, **row})
        except Exception as e:
            answer({"ok": False, "error": f"{type(e).__name__}: {e}"[:2000]})
        if torch is not None:
            with contextlib.suppress(Exception):
                torch._dynamo.reset()
            gc.collect()
            if device == "cuda":
                with contextlib.suppress(Exception):
                    torch.cuda.empty_cache()


class Worker:
    """The worker process, started again after a crash or a row that took too long."""

    def __init__(self, device):
        self.device, self.process, self.machine = device, None, None

    def line(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        text = self.process.stdout.readline() if ready else b""
        if text:
            return json.loads(text)
        if not ready:
            self.process.kill()
        code = self.process.wait()
        self.process = None
        return {"ok": False, "error": f"took longer than {seconds:.0f} s" if not ready else f"its process ended with code {code}"}

    def start(self):
        command = [sys.executable, os.path.abspath(__file__), "--worker", "--device", self.device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        first = self.line(180)
        self.machine = first.get("machine") or self.machine
        return first

    def ask(self, job, seconds):
        if self.process is None and "machine" not in (first := self.start()):
            return first
        try:
            self.process.stdin.write((json.dumps(job) + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            pass  # it is gone: line() tells with which code
        return self.line(seconds)

    def end(self):
        if self.process is not None:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()


def save_outputs(path, row, outputs):
    """Adds a row's samples to the .npz, and replaces it whole; returns their names and shapes."""
    beside = path + ".part"
    if os.path.exists(path):
        shutil.copy(path, beside)
    listed = []
    with zipfile.ZipFile(beside, "a", zipfile.ZIP_DEFLATED) as archive:
        for i, out in enumerate(outputs):
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(out['values'])},), }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            name = f"{row.replace('/', '|')}|{i}"
            data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            archive.writestr(name + ".npy", data + struct.pack(f"<{len(out['values'])}f", *out["values"]))
            listed.append({"array": name, "shape": out["shape"], "every": out["step"]})
    os.replace(beside, path)
    return listed


def write_json(path, report):
    with open(path + ".part", "w") as out:
        json.dump(report, out, indent=1)
        out.write("\n")
    os.replace(path + ".part", path)


def job_of(row, args, device):
    name, phase, dtype, mode = row.split("/")
    job = {"row": row, "model": name, "dtype": dtype, "mode": mode, "device": device, "seconds": args.seconds, "small": args.small}
    if args.model:
        return job | {"own": args.model, "phase": phase, "batch": 1, "tokens": 0}
    found = next(w for w in WORKLOADS if workload_name(*w) == f"{name}/{phase}")
    batch, tokens = (min(2, found[2]), min(16, found[3])) if args.small else found[2:]
    return job | {"phase": found[1], "batch": batch, "tokens": tokens}


def wanted_rows(args, device):
    if args.model:
        stem = os.path.splitext(os.path.basename(args.model.rpartition(":")[0]))[0]
        return [f"{stem}/call/given/{mode}" for mode in (MODES if device == "cuda" else ("eager", "default"))]
    usual, others = all_rows()
    if device == "cpu" and not args.rows:
        return [r for r in usual if r.endswith("/eager")]
    return [r for r in (usual + others if args.rows else usual) if re.search(args.rows or "", r)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="baseline.json", help="the JSON; samples of outputs go to the .npz beside it")
    parser.add_argument("--rows", help="regular expression over rows' names (all, and more than run unasked)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (1)")
    parser.add_argument("--budget", type=float, default=720, help="seconds after which no further row begins (720)")
    parser.add_argument("--row-limit", type=float, default=240, help="seconds after which a row is given up (240)")
    parser.add_argument("--model", metavar="FILE.py:FACTORY", help="a model of your own in place of the built-in ones")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="cuda where there is one")
    parser.add_argument("--small", action="store_true", help="small shapes, to see that everything runs")
    parser.add_argument("--list", action="store_true", help="names of rows, and nothing is run")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def describe(row):
    if not row["ok"]:
        return "error: " + row["error"].split("\n")[0][:100]
    watts, device = row["steady"]["watts"], row.get("device")
    text = f"{row['latency_ms']['p50']:9.3f} ms  {row['steady']['items_per_s']:12.1f} {row['unit']}/s"
    text += f"  {watts:5.0f} W" if watts else ""
    return text + (f"  busy {100 * device['busy_share']:3.0f} %  bound by {row['bound']}" if device else "")


def main():
    args = arguments()
    device = args.device or ("cuda" if torch is not None and torch.cuda.is_available() else "cpu")
    if args.worker:
        return worker(device)
    rows = wanted_rows(args, device)
    if args.list or not rows:
        print("\n".join(rows) if rows else f"no row matches {args.rows!r}; --list shows them")
        return 0 if rows else 2
    with open(__file__, "rb") as text:
        script = hashlib.sha256(text.read()).hexdigest()
    now = datetime.datetime.now(datetime.timezone.utc)
    report = {"version": VERSION, "kind": "baseline", "date": now.isoformat(timespec="seconds"), "commands": [], "rows": []}
    if os.path.exists(args.out):
        with open(args.out) as text:
            report = json.load(text)
    report["commands"].append(" ".join([os.path.basename(sys.executable), *sys.argv]))
    report["script_sha256"], report["small"] = script, args.small
    done = {r["row"] for r in report["rows"] if r["ok"]}
    begin, process = time.monotonic(), Worker(device)
    samples = os.path.splitext(args.out)[0] + ".npz"
    report["not_run"] = [r for r in rows if r not in done]
    for row in list(report["not_run"]):
        if time.monotonic() - begin > args.budget:
            break
        job = job_of(row, args, device)
        result = process.ask(job, args.row_limit)
        if process.machine is None:
            print(f"the worker did not start: {result['error']}; its own words are above", file=sys.stderr)
            return 1
        outputs = result.pop("outputs", None)
        saved = {"outputs": save_outputs(samples, row, outputs)} if outputs and job["mode"] == "eager" else {}
        when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        facts = {key: job[key] for key in ("row", "model", "phase", "batch", "tokens", "dtype", "mode")}
        report["machine"] = process.machine
        report["rows"] = [r for r in report["rows"] if r["row"] != row] + [{**facts, "date": when, **result, **saved}]
        report["not_run"].remove(row)
        write_json(args.out, report)
        print(f"{time.monotonic() - begin:6.0f} s  {row:44} {describe(report['rows'][-1])}", flush=True)
    process.end()
    failed = sum(not r["ok"] for r in report["rows"])
    print(f"{len(report['rows'])} rows, {failed} with an error, {len(report['not_run'])} left for another run -> {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

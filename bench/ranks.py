"""Many ranks on a small host: how soon they are ready, what a step takes beside one process with the same work, what each holds.

`ranks.py [--ranks 32] [--model llama-1m] [--steps 6] [--apart] [--alone]`: torchrun starts examples/torch/train_llama.py, unchanged; `--apart`
starts every rank as a process of its own (TRINE_RANKS=apart). Private memory is the kernel's, beside what torch says tensors took.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "examples" / "torch" / "train_llama.py"


def private_mb(process):
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Private_(?:Dirty|Clean): +(\d+)", text, re.M)) / 1024


def cpu_seconds(process):
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


ACCUMULATION = 8  # micro-steps of a rank


def measure(ranks, model, steps, apart, accumulation=ACCUMULATION):
    """Times since the start, and what ranks hold after the second step."""
    env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    env |= {"TRINE_RANKS": "apart"} if apart else {}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", str(SCRIPT), "--model", model,
               "--gradient-accumulation-steps", str(accumulation), "--steps", str(steps)]  # fmt: skip
    began, found = time.perf_counter(), {"steps": []}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as job:
        for line in job.stdout:
            now = time.perf_counter() - began
            if "ready" in line:
                found["ready"] = now
            elif m := re.match(r"step (\d+): .* ([\d.]+) s", line):
                found["steps"].append(float(m[2]))
                found.setdefault("first", now)
                found["cpu"] = found.get("cpu", []) + [sum(map(cpu_seconds, ranks_of(job.pid)))]
                if int(m[1]) == 1:  # while all run: pages of one that ends are its last holder's alone
                    found["private"] = [private_mb(p) for p in ranks_of(job.pid)]
            elif m := re.match(r"at most (\d+) MB", line):
                found["tensors"] = float(m[1])
    return found


def children_of(process):
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(c) for t in tasks for c in (t / "children").read_text().split()]
    except OSError:
        return []


def ranks_of(launcher):
    """Processes without children, below the launcher: the ranks."""
    below = children_of(launcher)
    return [p for c in below for p in (ranks_of(c) if children_of(c) else [c])]


def of_a_step(seconds):
    """Without the first step, and the last, at whose end ranks are gone."""
    return (seconds[-2] - seconds[0]) / (len(seconds) - 2)


def row(name, found):
    private = found.get("private") or [0]
    print(f"| {name} | {found['ready']:.1f} s | {found['first']:.1f} s | {min(found['steps'][1:]):.2f} s | {max(private):.0f} MB | "
          f"{found['tensors']:.0f} MB | {of_a_step(found['cpu']):.2f} s |", flush=True)  # fmt: skip


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--ranks", type=int, default=32)
    parse.add_argument("--model", default="llama-1m")
    parse.add_argument("--steps", type=int, default=6)
    parse.add_argument("--apart", action="store_true", help="also with every rank a process of its own")
    parse.add_argument("--alone", action="store_true", help="also one process with the same work")
    asked = parse.parse_args()
    print("| ranks | ready | first step done | quickest step | private, most | its tensors | processor time of a step |\n|---|--:|--:|--:|--:|--:|--:|")
    row(f"{asked.ranks}", measure(asked.ranks, asked.model, asked.steps, False))
    if asked.apart:
        row(f"{asked.ranks}, apart", measure(asked.ranks, asked.model, asked.steps, True))
    if asked.alone:
        row("one process, the same work", measure(1, asked.model, asked.steps, False, ACCUMULATION * asked.ranks))


main()

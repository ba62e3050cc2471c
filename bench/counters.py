"""What counting costs a run: a small eager op of PyTorch with counters, without them, in turns; minima of processes."""

import os
import subprocess
import sys

SCRIPT = """
import time, torch, trine
x = torch.ones(16, device="neuron")
for _ in range(2000): x + x
best = 1e9
for _ in range(30):
    begin = time.perf_counter()
    for _ in range(1000): x + x
    best = min(best, time.perf_counter() - begin)
print(best / 1000 * 1e9)
"""


def once(counters):
    environment = {**os.environ, "TRINE_COUNTERS": counters, "TRINE_THREADS": "1"}
    return float(subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    folder = f"/dev/shm/trine-bench-{os.getpid()}"
    rows = [(once(folder), once("off")) for _ in range(5)]
    on, off = (min(column) for column in zip(*rows))
    print(f"eager add of 16 numbers: {on:.0f} ns with counters, {off:.0f} ns without: {on / off:.3f} times")
    subprocess.run(["rm", "-rf", folder], check=True)

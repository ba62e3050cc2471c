"""How long an estimate takes: processor seconds of tracing, compiling and timing, and the process's peak memory.

    python bench/estimate.py [name …]

Each row in a process of its own, without the compile cache; least of three for the timer.
"""

import json
import os
import resource
import subprocess
import sys
import time
import types

ROWS = {
    # name: (configuration, arguments)
    "bert-base b1, trn1": ("bert-base", {"auto_cast": "matmult"}),
    "llama-3-8b decode 4096, tp 8": ("llama-3-8b", {"phase": "decode", "seq": 4096, "tp": 8, "instance": "trn1.32xlarge"}),
    "llama-3-8b prefill 128, tp 8": ("llama-3-8b", {"phase": "prefill", "seq": 128, "tp": 8, "instance": "trn1.32xlarge"}),
    "llama-3-70b prefill 2048, tp 64": ("llama-3-70b", {"phase": "prefill", "seq": 2048, "tp": 64, "instance": "trn2.48xlarge"}),
    "resnet-50 b1, inf2": ("resnet-50", {"auto_cast": "matmult", "instance": "inf2.xlarge"}),
}


def one(name):
    os.environ["JAX_PLATFORMS"] = "cpu"
    from trine.estimate import estimate, program

    program.time = types.SimpleNamespace(perf_counter=time.process_time)  # of this process, whatever else runs here
    config, arguments = ROWS[name]
    least = None
    for _ in range(3):
        found = estimate(config, **arguments).as_dict()
        if least is None:
            least = {k: found[k] for k in ("trace_s", "compile_s", "timer_s", "instructions")}
        least["timer_s"] = min(least["timer_s"], found["timer_s"])
        least["compile_s"] = min(least["compile_s"], found["compile_s"])
    least["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(least))


def main():
    if "--one" in sys.argv:
        return one(sys.argv[-1])
    print(f"{'program':34} {'instructions':>12} {'traced s':>9} {'compiled s':>11} {'timed s':>8} {'peak MB':>8}")
    for name in [n for n in ROWS if not sys.argv[1:] or any(w in n for w in sys.argv[1:])]:
        clean = os.environ | {"NEURON_CC_FLAGS": "--no_cache"}
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, env=clean, check=True)
        d = json.loads(done.stdout.splitlines()[-1])
        print(f"{name:34} {d['instructions']:>12,} {d['trace_s']:>9.2f} {d['compile_s']:>11.2f} {d['timer_s']:>8.3f} {d['peak_mb']:>8.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

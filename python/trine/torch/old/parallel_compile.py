"""neuron_parallel_compile: runs a script once to collect the graphs of its steps, compiles them in parallel, fills the cache.

While collecting nothing is computed: results are zeros, and what the script prints or saves means nothing. The second
run of the script, without this command, finds every program.
"""

import argparse
import concurrent.futures
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECTING = "NEURON_EXTRACT_GRAPHS_ONLY"  # set for the script that is run
FOLDER = "TRINE_COLLECTED_GRAPHS"


def is_collecting():
    return os.environ.get(COLLECTING) == "1" and FOLDER in os.environ


def collect(name, key, ops, calls, nodes, slots):
    """Keeps a step's trace for the parent; what C++ then needs is which storages it would write."""
    import hashlib

    path = Path(os.environ[FOLDER]) / f"{hashlib.sha256(key.encode()).hexdigest()}.graph"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps((name, key, ops, [c.bare() for c in calls], nodes, slots)))
        part.rename(path)
    return {"text": "", "params": [], "outputs": [(s, -1) for s, (*_, is_given) in enumerate(slots) if is_given]}


def compile_one(path):
    """In a worker: seconds it took, or what went wrong."""
    from trine import _core
    from trine.torch import cache, lazy_emit

    began = time.perf_counter()
    try:
        name, key, ops, calls, nodes, slots = pickle.loads(Path(path).read_bytes())
        program = cache.get_or_make(name, key, ops, lambda: lazy_emit.step(calls, nodes, slots))
        _core.Executable.compile(program["text"].encode())
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:300]}"
    return time.perf_counter() - began


def workers():
    return int(os.environ.get("NEURON_NUM_PARALLEL_COMPILE_WORKERS") or os.cpu_count() or 1)


def compile_all(folder):
    """Compiles what was collected; how many failed."""
    paths = sorted(Path(folder).glob("*.graph"))
    began = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(max(1, min(workers(), len(paths)))) as pool:
        found = list(pool.map(compile_one, paths))
    failed = [f for f in found if isinstance(f, str)]
    for f in failed:
        print(f"  failed: {f}", file=sys.stderr)
    print(f"compiled {len(paths) - len(failed)} of {len(paths)} graphs in {time.perf_counter() - began:.1f} s, "
          f"{min(workers(), max(len(paths), 1))} at a time; `trine cache ls` lists them", file=sys.stderr)
    return len(failed)


def run_script(command, folder):
    env = {**os.environ, COLLECTING: "1", FOLDER: str(folder)}
    began = time.perf_counter()
    done = subprocess.run(command, env=env)
    count = len(list(Path(folder).glob("*.graph")))
    print(f"collected {count} graphs in {time.perf_counter() - began:.1f} s; what the script printed or saved means nothing",
          file=sys.stderr)
    return done.returncode


def main(argv=None):
    parser = argparse.ArgumentParser("neuron_parallel_compile", description=__doc__.splitlines()[0])
    parser.add_argument("--command", choices=["collect", "compile", "both"], default="both",
                        help="collect: only run the script; compile: only what --folder holds")
    parser.add_argument("--folder", help="where collected graphs lie; a temporary one unless given")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the command that runs the script")
    args = parser.parse_args(argv)
    if args.command != "both" and not args.folder:
        parser.error(f"--command {args.command} needs --folder")
    if args.command != "compile" and not args.script:
        parser.error("expected the command that runs the script, for instance: neuron_parallel_compile python train.py")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if args.command != "compile":
            code = run_script(args.script, folder)
            if code:
                print(f"the script ended with {code}: nothing is compiled", file=sys.stderr)
                return code
        return 1 if args.command != "collect" and compile_all(folder) else 0


if __name__ == "__main__":
    sys.exit(main())

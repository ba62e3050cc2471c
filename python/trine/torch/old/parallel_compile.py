"""neuron_parallel_compile, which is `trine parallel-compile` (src/tools/commands/parallel_compile.cpp has its options): runs
a script once to collect the graphs of its steps, compiles them in parallel, fills the cache.

While collecting nothing is computed: results are zeros, and what the script prints or saves means nothing. The second
run of the script, without this command, finds every program.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trine.workers import processes

COLLECTING = "NEURON_EXTRACT_GRAPHS_ONLY"  # set for the script that is run
FOLDER = "TRINE_COLLECTED_GRAPHS"


def is_collecting():
    return os.environ.get(COLLECTING) == "1" and FOLDER in os.environ


def collect(name, key, ops, calls, nodes, slots):
    """Keeps a step's program for the parent, as text; what C++ then needs is which storages it would write."""
    import hashlib

    from trine.torch import lazy_emit

    path = Path(os.environ[FOLDER]) / f"{hashlib.sha256(key.encode()).hexdigest()}.graph"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        try:
            made = {"program": lazy_emit.step(calls, nodes, slots)}
        except Exception as e:  # the parent says so
            made = {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
        part.write_text(json.dumps({"name": name, "key": key, "ops": ops, **made}))
        part.rename(path)
    return {"text": "", "params": [], "outputs": [(s, -1) for s, slot in enumerate(slots) if slot.is_given]}


def compile_one(path):
    """In a worker: seconds it took, or what went wrong."""
    from trine import _core
    from trine.torch import cache

    began = time.perf_counter()
    try:
        given = json.loads(Path(path).read_text())
        if "failed" in given:
            return given["failed"]
        program = cache.get_or_make(given["name"], given["key"], given["ops"], lambda: given["program"])
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
    with processes(max(1, min(workers(), len(paths)))) as pool:
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


def run(asked):
    from trine.command import USAGE, Stop

    what = asked.options["command"]
    if what != "both" and not asked.folder:
        raise Stop(USAGE, f"--command {what} needs --folder")
    if what != "compile" and not asked.words:
        raise Stop(USAGE, "expected the command that runs the script, for instance: trine parallel-compile python train.py")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if what != "compile":
            code = run_script(asked.words, folder)
            if code:
                print(f"the script ended with {code}: nothing is compiled", file=sys.stderr)
                return code
        return 1 if what != "collect" and compile_all(folder) else 0


def main():
    """The command by its own name, as python/compat installs it."""
    from trine.__main__ import become_trine

    become_trine(["parallel-compile", *sys.argv[1:]])


if __name__ == "__main__":
    main()

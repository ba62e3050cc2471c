"""Runs the cases of a file in processes that talk to each other: `python ranks.py FILE COUNT FOLDER`.

A case is a function whose name begins with `case_`; it takes a folder that all share, and compares by assert. One start
serves all cases: each process writes what it found to FOLDER/rank.json, a traceback for a case that failed.
"""

import importlib.util
import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load(path):
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/compat")]
    spec = importlib.util.spec_from_file_location("cases", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(path):
    return [line.split("(")[0].removeprefix("def ") for line in Path(path).read_text().splitlines() if line.startswith("def case_")]


def all_left(name):
    """Whether all ranks come to the end of a case soon."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    store.set(f"{name} {dist.get_rank()}", "")
    try:
        store.wait([f"{name} {r}" for r in range(dist.get_world_size())], timedelta(seconds=60))
    except RuntimeError:
        return False
    return True


def work(rank, path, folder, only):
    module, found = load(path), {}
    module.begin()
    for name in only or names(path):
        try:
            getattr(module, name)(Path(folder))
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
        Path(folder, f"{rank}.json").write_text(json.dumps(found))
        if not all_left(name):
            os._exit(1)  # a rank waits inside the case for one that left it
    os._exit(0)  # torch 2.13's own gloo sometimes ends a process with an abort


def results(path, count, folder, only=(), settings=None):
    """Case -> "" or what went wrong, on the first rank that says so."""
    import subprocess

    env = {**os.environ, "TRINE_INSTANCE": "trn1.32xlarge", "PYTHONPATH": f"{ROOT}/python:{ROOT}/python/compat", **(settings or {})}
    done = subprocess.run([sys.executable, __file__, str(path), str(count), str(folder), *only], capture_output=True, text=True, env=env, timeout=600)
    ranks = [json.loads(p.read_text()) for p in Path(folder).glob("*.json")]
    out = {}
    for name in only or names(path):
        wrong = [r[name] for r in ranks if r.get(name)]
        ran = sum(name in r for r in ranks)
        out[name] = wrong[0] if wrong else "" if ran == count else f"{ran} of {count} ranks came to its end\n{done.stderr[-3000:]}"
    return out


if __name__ == "__main__":
    path, count, folder, *only = sys.argv[1:]
    load(path)
    import torch_xla.distributed.xla_multiprocessing as xmp

    xmp.spawn(work, (path, folder, only), nprocs=int(count))

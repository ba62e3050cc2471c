"""`fork_ranks.py N script args…`: runs the script on N ranks of one host, as torchrun does, but imports torch once.

FIRST_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where set, make it one host of several.
"""

import os
import runpy
import socket
import sys
import traceback

import torch.distributed  # noqa: F401


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_rank(rank, first, script):
    os.environ.update(RANK=str(first + rank), LOCAL_RANK=str(rank))
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as e:
        code = e.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    ranks, sys.argv = int(sys.argv[1]), sys.argv[2:]
    first = int(os.environ.get("FIRST_RANK", 0))
    alone = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks))
    os.environ.update({**alone, "LOCAL_WORLD_SIZE": str(ranks), **os.environ})
    children = {}
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            run_rank(rank, first, sys.argv[0])
        children[child] = rank
    print("ranks are", *children, flush=True)
    failed = []
    while children:
        child, status = os.wait()
        if status:
            failed.append(children[child])
        del children[child]
    sys.exit(bool(failed))


main()

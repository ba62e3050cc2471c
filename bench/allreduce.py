"""All-reduce between processes of one host: our group beside gloo and Open MPI, same ranks and sizes, in turns; least time.

`allreduce.py [--ranks 2,8,32] [--bytes 1024,…] [--rounds N] [--python P]`: P is a Python with mpi4py and numpy, and mpirun is
on the path; without them that column is empty. Every job's ranks stay, and sleep while another's are timed.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time

JOBS = ("ours", "gloo", "mpi")


def text_of(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"


def timed(body, ready, rounds):
    """Seconds of the quickest round, on this rank."""
    best = float("inf")
    for _ in range(rounds):
        ready()
        start = time.perf_counter()
        body()
        best = min(best, time.perf_counter() - start)
    return best


def torch_rank(rank, ranks, port):
    import torch
    import torch.distributed as dist

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("neuron")
    groups = {"ours": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    while True:
        command = [sys.stdin.readline().split() if rank == 0 else None]
        dist.broadcast_object_list(command, 0)
        if not command[0]:
            os._exit(0)
        job, size, rounds = command[0][0], int(command[0][1]), int(command[0][2])
        group, x = groups[job], torch.ones(size // 4)
        best = timed(lambda: dist.all_reduce(x, group=group), lambda: dist.barrier(), rounds)
        if rank == 0:
            print(best, flush=True)


def torch_job(ranks):
    """Forked after the import, which all ranks share."""
    import torch.distributed  # noqa: F401

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    for rank in range(1, ranks):
        if os.fork() == 0:
            torch_rank(rank, ranks, port)
    torch_rank(0, ranks, port)


def mpi_job():
    import numpy
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def sleep_until(request):  # MPI's own waiting would take the cores from whoever is timed
        while not request.Test():
            time.sleep(0.005)

    while True:
        command = numpy.zeros(2, numpy.int64)
        if world.rank == 0:
            words = sys.stdin.readline().split()
            command[:] = [int(words[1]), int(words[2])] if words else [-1, 0]
        sleep_until(world.Ibcast(command, 0))
        if command[0] < 0:
            return
        x = numpy.ones(command[0] // 4, numpy.float32)
        best = timed(lambda: world.Allreduce(MPI.IN_PLACE, x), world.Barrier, int(command[1]))
        if world.rank == 0:
            print(best, flush=True)


def start(kind, ranks, python):
    me = os.path.abspath(__file__)
    if kind == "torch":
        command = [sys.executable, me, "--job", "torch", "--ranks", str(ranks)]
    else:
        crowded = ["--oversubscribe"] if ranks > len(os.sched_getaffinity(0)) else []  # it then gives way while it waits
        command = ["mpirun", "--allow-run-as-root", *crowded, "-n", str(ranks), python, me, "--job", "mpi"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def ask(job, name, size, rounds):
    job.stdin.write(f"{name} {size} {rounds}\n")
    job.stdin.flush()
    return float(job.stdout.readline())


def compare(ranks, sizes, rounds, python):
    jobs = {"torch": start("torch", ranks, python)}
    has_mpi = shutil.which("mpirun") and subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode == 0
    if has_mpi:
        jobs["mpi"] = start("mpi", ranks, python)
    for size in sizes:
        best = dict.fromkeys(JOBS, float("inf"))
        each = max(1, min(10, (64 << 20) // (size * ranks)))
        for _ in range(rounds):
            for name in JOBS if has_mpi else JOBS[:2]:
                best[name] = min(best[name], ask(jobs["mpi" if name == "mpi" else "torch"], name, size, each))
        shown = [f"{best[n] * 1e3:.3g} ms" if best[n] < 1e9 else "–" for n in JOBS]
        print(f"| {ranks} | {text_of(size)} | {' | '.join(shown)} |", flush=True)
    for job in jobs.values():
        job.stdin.close()
        job.wait()


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--ranks", default="2,8,32")
    parse.add_argument("--bytes", default=",".join(str(1 << n) for n in (10, 14, 18, 22, 26)))
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--python", default=sys.executable)
    parse.add_argument("--job")
    args = parse.parse_args()
    if args.job == "mpi":
        return mpi_job()
    if args.job == "torch":
        return torch_job(int(args.ranks))
    print("| ranks | bytes | ours | gloo | Open MPI |\n|--:|--:|--:|--:|--:|", flush=True)
    for ranks in map(int, args.ranks.split(",")):
        compare(ranks, [int(b) for b in args.bytes.split(",")], args.rounds, args.python)


main()

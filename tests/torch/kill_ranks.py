"""kill_ranks.py [--count 100] [--seed N]: kills ranks, launchers and their servers at random moments, and looks for what is left.

A job is four ranks that exchange all the time: most are forked here, every fifth is torchrun's. Once what was chosen is killed,
the others must end by themselves, and nothing of the job may be left: no process, no shared memory, no socket, no port. Prints a
line for each job that left something, and a count; the status is 1 where there was any.
"""

import argparse
import contextlib
import ctypes
import datetime
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

RANKS = 4
TIMEOUT = datetime.timedelta(seconds=20)  # for ranks to find each other: one that was killed before never comes
SECONDS = 60  # for the others to end
SUBREAPER = 36  # prctl: orphans become this process's children


def rank_program():
    """Exchanges until it is killed, or somebody else was."""
    dist.init_process_group("neuron", timeout=TIMEOUT)
    rank, count = dist.get_rank(), dist.get_world_size()
    x = torch.ones(1 << 14, device="neuron")
    parts = [torch.empty_like(x) for _ in range(count)]
    print("running", flush=True)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        dist.all_gather(parts, x * 1.5)
        dist.broadcast(x, src=0)
        if rank % 2 == 0:
            dist.send(x, rank + 1)
        else:
            dist.recv(x, rank - 1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def below(process):
    """Every process that descends from this one."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *below(child)]
    return found


def traces():
    """Names that a job may leave on the machine."""
    names = {f"/dev/shm/{n}" for n in os.listdir("/dev/shm")}
    with open("/proc/net/unix") as sockets:
        names |= {line.split()[-1] for line in sockets if "trine" in line.split()[-1]}
    return {n for n in names if "trine" in n}


def forked(port, log):
    """A launcher that forks ranks and waits for them, as a plain parent does."""
    launcher = os.fork()
    if launcher:
        return launcher
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS))
    os.dup2(log, 1), os.dup2(log, 2)
    for rank in range(RANKS):
        if os.fork() == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            try:
                rank_program()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(1)
    for _ in range(RANKS):
        os.wait()
    os._exit(0)


def launched(port, log):
    """torchrun's: a launcher, the process that ranks are forked from, and the ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={RANKS}", f"--master_port={port}", __file__, "--rank"]
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True).pid


def wait_until(is_true, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        reap()
        if is_true():
            return True
        time.sleep(0.02)
    return is_true()


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def is_bound(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return s.connect_ex(("127.0.0.1", port)) == 0


def one_job(number, chance):
    """What is left of a job that was killed, as text; empty: nothing."""
    before, port, own = traces(), free_port(), os.getpid()
    with tempfile.TemporaryFile() as log:
        starts = launched if number % 5 == 4 else forked
        launcher = starts(port, log.fileno())
        early = chance.random() < 0.2  # while ranks look for each other
        if not early:
            wait_until(lambda: os.pread(log.fileno(), 1 << 20, 0).count(b"running") >= RANKS or not below(own), SECONDS)
        time.sleep(chance.uniform(0, 4 if early and starts is launched else 0.3))
        there = []

        def is_there():
            there[:] = [p for p in below(own) if starts is launched or p != launcher]  # whoever forks ranks by hand looks after them
            return there

        wait_until(is_there, SECONDS)
        victims = chance.sample(there, min(len(there), chance.choice((1, 1, 1, 2, 3))))
        how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        for victim in victims:
            with contextlib.suppress(OSError):
                os.kill(victim, how)
        ended = wait_until(lambda: not below(own), SECONDS)
        left = [f"process {p}: {Path(f'/proc/{p}/cmdline').read_bytes()[:80]!r}" for p in below(own)]
        for process in below(own):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        wait_until(lambda: not below(own), 5)
        left += sorted(traces() - before) + ([f"port {port}"] if is_bound(port) else [])
        if ended and not left:
            return ""
        said = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")[-600:]
        return f"job {number} ({starts.__name__}, {how.name} of {len(victims)} of {len(there)}{', early' if early else ''}): {left}\n{said}"


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--count", type=int, default=100)
    parse.add_argument("--seed", type=int, default=0)
    parse.add_argument("--rank", action="store_true", help="be one of torchrun's ranks")
    asked = parse.parse_args()
    if asked.rank:
        return rank_program()
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    os.environ["TRINE_INSTANCE"] = "trn1.32xlarge"
    chance, failed, began = random.Random(asked.seed), 0, time.monotonic()
    for number in range(asked.count):
        found = one_job(number, chance)
        failed += bool(found)
        if found or number % 10 == 9:
            print(found or f"{number + 1} jobs", flush=True)
    print(f"{asked.count} jobs killed in {time.monotonic() - began:.0f} s; {failed} left something", flush=True)
    return sys.exit(bool(failed))


main()

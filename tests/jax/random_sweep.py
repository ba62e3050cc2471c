"""Random programs on virtual NeuronCores against XLA's CPU until the time is over: `random_sweep.py SEED --seconds 60`.

A difference is printed as the smallest program that still has it, and the exit code is 1. Programs run in a process
of their own, as some of them end XLA's: those are passed over.
"""

import argparse
import os
import subprocess
import sys
import time

import random_control
import random_floats
import random_mesh
import random_programs


def made(seed, given):
    maker, steps = {
        "whole": (random_programs.Maker, random_control.STEPS),
        "large": (random_programs.LargeMaker, random_control.STEPS),
        "mesh": (random_mesh.MeshMaker, random_mesh.STEPS),
        "floats": (random_floats.FloatMaker, random_floats.STEPS),
    }[given.of]
    return maker(seed, steps, given.length).make()


def first_difference(seed, given):
    """None, or the shrunk program of this seed and how it differs. Says on the way which backend is next."""

    def differs(program):
        print(f"@{seed} cpu", flush=True)
        wanted = random_programs.attempt(program, "cpu")
        if isinstance(wanted, str):
            return ""  # XLA refuses it
        print(f"@{seed} neuron", flush=True)
        return random_programs.difference(program, random_programs.attempt(program, "neuron"), wanted)

    program = made(seed, given)
    if not differs(program):
        return None
    least = random_programs.shrunk(program, differs)
    return least, differs(least)


def alone(given):
    """The work, in a process that may end at any program."""
    end = time.monotonic() + given.seconds
    for seed in range(given.seed, given.seed + given.programs):
        if time.monotonic() > end:
            break
        if wrong := first_difference(seed, given):
            print(f"{wrong[0].snippet()}# {wrong[1]}\n", flush=True)
    print(f"@{seed} done", flush=True)


def worker(given, seed, seconds):
    """(last seed, the backend it was at, lines printed, exit code) of one such process."""
    left = given.seed + given.programs - seed
    words = [seed, "--seconds", seconds, "--programs", left, "--length", given.length, "--alone", "--of", given.of]
    eight = {"TRINE_INSTANCE": "trn1.32xlarge", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"} if given.of == "mesh" else {}
    command = [sys.executable, __file__, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | eight) as process:
        at, printed = f"@{seed} start", []
        for line in process.stdout:
            if line.startswith("@"):
                at = line
            else:
                print(line, end="", flush=True)
                printed.append(line)
    last, side = at[1:].split()
    return int(last), side, printed, process.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--programs", type=int, default=10**9)
    parser.add_argument("--length", type=int, default=24, help="the most steps of a program")
    parser.add_argument("--of", choices=["whole", "large", "mesh", "floats"], default="whole", help="large: tensors; mesh: on eight devices")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        return alone(given)
    seed, found, passed, end = given.seed, 0, 0, time.monotonic() + given.seconds
    while seed < given.seed + given.programs and (left := end - time.monotonic()) > 0:
        last, side, printed, code = worker(given, seed, left)
        found += sum(line.startswith("# seed ") for line in printed)
        if code and side == "cpu":
            passed += 1
        elif code:
            found += 1
            print(f"{made(last, given).snippet()}# ended the process: {code}\n")
        seed = last + 1
    print(f"{seed - given.seed} programs, {found} differ, {passed} ended XLA's process")
    return found > 0


if __name__ == "__main__":
    raise SystemExit(main())

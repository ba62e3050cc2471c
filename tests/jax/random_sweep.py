"""Random programs on virtual NeuronCores against XLA's CPU until the time is over: `random_sweep.py SEED --seconds 60`.

A difference is printed as the smallest program that still has it, and the exit code is 1. Each side runs in a process
of its own, as a program may end it: ours counts as a difference, XLA's is named and passed over.
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
from random_reference import Reference


def made(seed, given):
    maker, steps = {
        "whole": (random_programs.Maker, random_control.STEPS),
        "large": (random_programs.LargeMaker, random_control.STEPS),
        "mesh": (random_mesh.MeshMaker, random_mesh.STEPS),
        "floats": (random_floats.FloatMaker, random_floats.STEPS),
    }[given.of]
    return maker(seed, steps, given.length).make()


def first_difference(seed, given, reference):
    """None, or the shrunk program of this seed and how it differs."""

    def ran(program):
        reference.begin(program)
        ours = random_programs.attempt(program, "neuron")
        return ours, reference.end()

    def wrong(program, ours, wanted):
        found = "" if isinstance(wanted, str) else random_programs.difference(program, ours, wanted)
        if not found or not (wide := program.exact()):
            return found
        reference.begin(wide)
        exact = reference.end()
        return found if isinstance(exact, str) else random_programs.difference(program, ours, wanted, exact)

    program = made(seed, given)
    ours, wanted = ran(program)
    if not wrong(program, ours, wanted):
        return None
    reference.restart()  # what an earlier program did to XLA's memory is no fault of ours
    reference.begin(program)
    if not wrong(program, ours, reference.end()):
        return None
    least = random_programs.shrunk(program, lambda p: wrong(p, *ran(p)))
    return least, wrong(least, *ran(least)) or "differs now and then"


def alone(given):
    """The work, in a process that our backend may end at any program."""
    end, reference = time.monotonic() + given.seconds, Reference()
    for seed in range(given.seed, given.seed + given.programs):
        if time.monotonic() > end:
            break
        print(f"@{seed}", flush=True)
        if wrong := first_difference(seed, given, reference):
            print(f"{wrong[0].snippet()}# differs: {wrong[1]}\n", flush=True)


def worker(given, seed, seconds):
    """(last seed, lines printed, exit code) of one such process."""
    left = given.seed + given.programs - seed
    words = [seed, "--seconds", seconds, "--programs", left, "--length", given.length, "--alone", "--of", given.of]
    eight = {"TRINE_INSTANCE": "trn1.32xlarge", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"} if given.of == "mesh" else {}
    command = [sys.executable, __file__, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | eight) as process:
        last, printed = seed, []
        for line in process.stdout:
            if line.startswith("@"):
                last = int(line[1:])
            else:
                print(line, end="", flush=True)
                printed.append(line)
    return last, printed, process.returncode


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
        last, printed, code = worker(given, seed, left)
        found += sum(line.startswith("# differs: ") for line in printed)
        passed += sum("XLA's CPU ended its process" in line for line in printed)
        if code:
            found += 1
            print(f"{made(last, given).snippet()}# ended our process: {code}\n")
        seed = last + 1
    print(f"{seed - given.seed} programs, {found} differ, {passed} ended XLA's process")
    return found > 0


if __name__ == "__main__":
    raise SystemExit(main())

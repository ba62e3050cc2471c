"""torch's own DistributedTest, of its wheel, over our process group: `wheel_distributed.py [--only REGEX] [--ranks 4] [--out FILE]`.

Its tests skip themselves for names of groups they do not know, so they run three times: with `neuron` under its own name, and in the
place of gloo and of mpi. What fails runs once more with the real gloo, so that what fails with both is told from what is ours.
Minutes: `make test-distributed`, which writes docs/distributed_test.md.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HEAD = """# torch's own tests of process groups

Written by `make test-distributed`: DistributedTest of torch's wheel on four ranks with CPU tensors over the group `neuron`, by its own name and in the
place of gloo and of mpi, as its tests skip themselves for names that they do not know.
"""
BEST = ("passed", "failed", "skipped")


def take_the_place_of(name):
    """Whoever asks for that group gets ours."""
    import torch.distributed as dist

    def ours(make):
        def call(*args, **kwargs):
            swap = [("neuron" if a == name else a) for a in args]
            return make(*swap, **{k: "neuron" if k == "backend" and v == name else v for k, v in kwargs.items()})

        return call

    for call in ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration"):
        setattr(dist, call, ours(getattr(dist, call)))


def classes(backend, is_ours):
    """The wheel's tests for a group; its module reads the environment as it is imported."""
    os.environ |= {"BACKEND": backend}
    if is_ours:
        take_the_place_of(backend)
    import torch.multiprocessing
    from torch.testing._internal import common_distributed as common

    for feature in ("ddp", "subgroup", "plugin"):
        common.DistTestCases.backend_feature[feature].add("neuron")
    from torch.testing._internal.distributed import distributed_test

    class Test(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Test


class Said(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def _note(self, test, outcome, why=""):
        self.outcomes[test._testMethodName] = (outcome, why)
        print(f"{outcome:8} {test._testMethodName} {why.strip().splitlines()[-1][:150] if why.strip() else ''}", flush=True)

    def addSuccess(self, test):
        self._note(test, "passed")

    def addSkip(self, test, reason):
        self._note(test, "skipped", reason)

    def addFailure(self, test, error):
        self._note(test, "failed", self._exc_info_to_string(error, test))

    addError = addFailure


def run(backend, names, is_ours=True):
    """{name: (outcome, why)}, in a process of its own, as the wheel reads BACKEND once."""
    with tempfile.NamedTemporaryFile("r") as out:
        command = [sys.executable, __file__, "--child", backend, "--out", out.name, *(["--ours"] if is_ours else []), "--names", *names]
        subprocess.run(command, check=False)
        return json.loads(out.read() or "{}")


def child(backend, is_ours, names, out):
    test = classes(backend, is_ours)
    result = Said()
    for name in names or [n for n in dir(test) if n.startswith("test_")]:
        test(name).run(result)
    with open(out, "w") as file:
        json.dump(result.outcomes, file)


def why_of(text):
    """The line of a failure that says what."""
    said = [line.split("] ", 1)[-1].strip() for line in text.splitlines() if re.search(r"^\S*(Error|Exception)\b|\bError: ", line.split("] ", 1)[-1])]
    return (said or [""])[-1].replace("|", "/")[:160]


def table(ours, theirs):
    counts = collections.Counter(o for o, _ in ours.values())
    reasons = collections.Counter(why for o, why in ours.values() if o == "skipped")
    lines = [HEAD, f"**{counts['passed']} pass, {counts['failed']} fail**, {counts['skipped']} skip themselves.", "", "| fails | with gloo | why |", "|---|---|---|"]
    lines += [f"| {n} | {theirs.get(n, ('–',))[0]} | {why_of(why)} |" for n, (o, why) in sorted(ours.items()) if o == "failed"]
    lines += ["", "| skip themselves | tests |", "|---|--:|", *(f"| {why} | {n} |" for why, n in reasons.most_common())]
    return "\n".join(lines) + "\n"


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--only", default="")
    parse.add_argument("--ranks", default="4")
    parse.add_argument("--out")
    parse.add_argument("--child")
    parse.add_argument("--ours", action="store_true")
    parse.add_argument("--names", nargs="*")
    asked = parse.parse_args()
    folder = tempfile.mkdtemp()
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name))
    os.environ |= {"WORLD_SIZE": asked.ranks, "TEMP_DIR": folder, "INIT_METHOD": "env://", "OMP_NUM_THREADS": "1"}
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
    if asked.child:
        return child(asked.child, asked.ours, asked.names, asked.out)
    names = [n for n in dir(classes("neuron", True)) if n.startswith("test_") and re.search(asked.only, n)]
    ours = {}
    for guise in ("neuron", "gloo", "mpi"):
        left = [n for n in names if ours.get(n, ("skipped",))[0] != "passed"]
        for name, found in run(guise, left).items():
            known = ours.get(name)  # of two that skip, gloo's reason says more than a name's
            if not known or BEST.index(found[0]) < BEST.index(known[0]) or (guise == "gloo" and found[0] == known[0]):
                ours[name] = found
    failed = [n for n, (o, _) in ours.items() if o == "failed"]
    text = table(ours, run("gloo", failed, False) if failed else {})
    print(text)
    if asked.out:
        with open(asked.out, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()

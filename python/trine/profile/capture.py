"""`trine profile capture`: runs a command unchanged, with a folder for what its processes run, and makes the profile at its end.

While it runs only the order and the host's times of runs are written down (some hundred nanoseconds each); compiling for the
chip and timing come once per program when it is over. What that needs is imported while the command runs.
"""

import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from trine import command
from trine.text import duration


def of_command(words, path, instance=None, auto_cast="none", events=None):
    """(exit code of the command, info or None where nothing ran)."""
    folder = tempfile.mkdtemp(prefix="trine-profile-", dir=_parent(path))
    env = os.environ | {"TRINE_PROFILE_RECORD": folder}
    env.pop("NEURON_RT_INSPECT_ENABLE", None)  # one profile, this one
    if instance:
        env["TRINE_INSTANCE"] = instance
    try:
        began = time.time()
        code = _run(words, env)
        wall_s = time.time() - began
        from trine.profile import assemble

        try:
            return code, assemble.from_record(folder, path, instance, auto_cast, events or assemble.EVENTS_MAX, command=list(words), wall_s=wall_s, exit_code=code)
        except ValueError as e:
            if "no program ran" not in str(e):
                raise
            return code, None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parent(path):
    """Beside the profile, which is the disk that the user chose."""
    parent = pathlib.Path(path).resolve().parent
    if not parent.is_dir():
        raise command.Stop(command.OUTSIDE, f"found no folder {parent}, expected one for {pathlib.Path(path).name}")
    return parent


def _run(words, env):
    """The command's exit code. Ctrl-C goes to it, and SIGTERM is handed on; what ran until then is still profiled."""
    try:
        process = subprocess.Popen(words, env=env)
    except OSError as e:
        raise command.Stop(command.OUTSIDE, f"could not start {words[0]}: {e.strerror}") from None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        importlib.import_module("trine.profile.assemble")
        return process.wait()
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before):
            signal.signal(number, handler)


def of_program(file, path, instance=None, events=None, executions=1):
    """A compiled program alone (.trn, .tprog, .tasm): info."""
    from trine import _core
    from trine.profile import assemble

    assembly = assemble.Assembly(path, instance, events=events or assemble.EVENTS_MAX)
    try:
        programs = [(pathlib.Path(file).stem, p) for p in _programs(file)]
    except (ValueError, OSError) as e:
        raise command.Stop(command.UNSUPPORTED, str(e)) from None
    numbers = [assembly.kernel(name, program, (file, i)) for i, (name, program) in enumerate(programs)]
    bad = next((assembly.programs[n]["why_not"] for n in numbers if assembly.programs[n]["why_not"]), None)
    if bad:
        raise command.Stop(command.UNSUPPORTED, bad)
    assembly.lay(0, [("program", n, 0, 0, 0) for _ in range(executions) for n in numbers])
    return assembly.finish(command=[str(file)], tool=f"trine {_core.version}")


def _programs(file):
    from trine import _core

    if str(file).endswith(".onnx"):
        raise command.Stop(command.UNSUPPORTED, f"{file}: compile it first: trine compile {file} -o {pathlib.Path(file).with_suffix('.trn')}")
    if hasattr(_core, "trn_programs") and str(file).endswith((".trn", ".neff", ".pt")):
        return _core.trn_programs(str(file))
    return [_core.Program.load(str(file))]


def tell(info, path):
    """What was captured, in a line or two, on stderr."""
    events = sum(p["events"] for p in info["programs"])
    runs = sum(r["runs"] for r in info["ranks"])
    ranks = "" if len(info["ranks"]) == 1 else f" in {len(info['ranks'])} processes"
    print(f"captured {runs:,} runs of {len(info['programs'])} programs{ranks}, {duration(info['time_ns'])} on {info['instance']}, "
          f"{events:,} events ({os.path.getsize(path) / 1e6:.1f} MB) → {path}", file=sys.stderr)  # fmt: skip
    for p in info["programs"]:
        if not p["whole"]:
            print(f"  note: {p['name']} is longer than its {p['events']:,} events; --events N keeps more", file=sys.stderr)
    print(f"look at it: trine profile view {path}", file=sys.stderr)

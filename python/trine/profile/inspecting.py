"""NEURON_RT_INSPECT_ENABLE=1: this process writes a profile of itself when it ends, into NEURON_RT_INSPECT_OUTPUT_DIR.

Imported before anything of Trine's is loaded, since what records is told by the environment. A process that is killed leaves
its record, the runs until then, in that folder.
"""

import atexit
import os
import pathlib
import shutil
import sys


def start():
    """The folder for this process's record; its profile is made at exit."""
    out = pathlib.Path(os.environ.get("NEURON_RT_INSPECT_OUTPUT_DIR") or "output") / f"i-virtual_pid_{os.getpid()}"
    folder = out / "record"
    os.environ["TRINE_PROFILE_RECORD"] = str(folder.resolve())
    atexit.register(_finish, os.getpid(), folder.resolve(), out.resolve())


def _finish(pid, folder, out):
    if os.getpid() != pid or not folder.is_dir():
        return  # a fork, or nothing was loaded
    from trine.profile import assemble

    try:
        info = assemble.from_record(folder, out / "profile.ntff", command=[sys.executable, *sys.argv])
    except ValueError as e:
        if "no program ran" not in str(e):
            print(f"trine: no profile: {e}", file=sys.stderr)
        shutil.rmtree(out, ignore_errors=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"trine: profile of {sum(r['runs'] for r in info['ranks']):,} runs → {out / 'profile.ntff'}", file=sys.stderr)

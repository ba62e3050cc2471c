"""Verbs of the command's text tests. `run ARGS` starts trine with ARGS, `sh LINE` a whole shell line.

Each runs in a fresh folder that is also its HOME, without colour and without the caller's TRINE_ settings but TRINE_VERIFY_EACH.
The indented lines are stdin; the text compared is stdout and then stderr.
"""

import os
import subprocess

PLAIN = {"run", "sh"}


def shell(command, line, context):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRINE_", "XDG_")) or k == "TRINE_VERIFY_EACH"}
    env |= {"HOME": str(context.folder), "NO_COLOR": "1", "ROOT": str(context.root)}
    env["PATH"] = f"{context.trine.parent}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], input=line.input, env=env, cwd=context.folder, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr, done.returncode


def run(line, context):
    return shell(f"trine {line.text}", line, context)


def sh(line, context):
    return shell(line.text, line, context)

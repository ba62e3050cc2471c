"""Verbs of the passes' text tests: a text in, what the passes leave of it out; `trine compile --run-pass` does the work.

`run PASS...` prints what the last of the passes leaves; `same PASS...` holds that the last one changes nothing. The input is a
graph's text or a recorded kernel's. Keys: `instance=`, `cast=` (--auto-cast), `type=` (--auto-cast-type), `target=host`.
"""

import subprocess


def passes(names, line, context):
    options = {"instance": "--instance", "cast": "--auto-cast", "type": "--auto-cast-type"}
    words = [str(w) for key, value in line.keys.items() if key != "target" for w in (options[key], value)]
    words += ["--host"] if line.keys.get("target") == "host" else []
    command = [context.trine, "compile", "--run-pass", ",".join(names), "-", *words]
    done = subprocess.run(command, input=line.input, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr, done.returncode


def run(line, context):
    return passes(line.words, line, context)


def same(line, context):
    text, code = passes(line.words, line, context)
    assert code == 0, text
    before = passes(line.words[:-1], line, context)[0] if line.words[1:] else line.input
    assert text == before, f"{line.words[-1]} changed it to\n{text}"

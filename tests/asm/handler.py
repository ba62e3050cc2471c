"""Verbs of the assembler's and the verifier's text tests. The indented input is assembly; CHIP is who checks it.

`ok CHIP` passes, `error CHIP ~ regex` is refused with that message, `text` prints the canonical text.
"""

import os
import subprocess


def trine(context, arguments, text):
    return subprocess.run([context.trine, *arguments], input=text, capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"})


def assemble(line, context):
    """The chip goes on the first line, so that the line numbers of messages are those of the test's input."""
    return trine(context, ["asm", "-"], f"chip {line.words[0]};{line.input}".replace(";", "\n", 1))


def ok(line, context):
    done = assemble(line, context)
    assert done.returncode == 0, done.stderr


def error(line, context):
    done = assemble(line, context)
    return done.stderr if done.returncode else None


def text(line, context):
    done = trine(context, ["disasm", "-"], line.input)
    return done.stdout + done.stderr, done.returncode

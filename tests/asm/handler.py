"""Verbs of the assembler's and the verifier's text tests. The indented input is assembly; CHIP is who checks it.

`ok CHIP` passes, `error CHIP ~ regex` is refused with that message, `text` prints the canonical text.
Input that does not begin with `program` gets the tensors of HEAD before it.
"""

import os
import subprocess

HEAD = """\
program p
tensor a hbm f32[128,512] input
tensor out hbm f32[128,512] output
const w hbm f32[128,512] fill 1
tensor t sbuf f32[128,512]
tensor u sbuf bf16[128,512]
tensor v sbuf f32[128,512]
tensor i sbuf u32[128,1]
tensor q sbuf f32[32,512] at 32:8192
tensor h sbuf s64[128,8]
tensor f sbuf f8e4m3[128,512]
tensor acc psum f32[128,512]
tensor acc2 psum f32[128,1024]
"""


def trine(context, arguments, text):
    return subprocess.run(
        [context.trine, *arguments], input=text, capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"}
    )


def assemble(line, context):
    head = "" if line.input.startswith("program") else HEAD
    return trine(context, ["asm", "-"], f"{head}chip {line.words[0]}\n{line.input}")


def ok(line, context):
    done = assemble(line, context)
    assert done.returncode == 0, done.stderr


def error(line, context):
    done = assemble(line, context)
    return done.stderr if done.returncode else None


def text(line, context):
    done = trine(context, ["disasm", "-"], line.input)
    return done.stdout + done.stderr, done.returncode

"""Ctrl-C ends what runs within a second, whatever it is; what follows runs."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp

def nested(x, depth=8):
    return x + 1 if not depth else jax.lax.fori_loop(0, 1_000_000, lambda i, v: nested(v, depth - 1), x)

programs = {
    "an infinite while": (lambda x: jax.lax.while_loop(lambda c: c[1] > 0, lambda c: (c[0] * 1.5, c[1] * 2 % 7 + 1), (x, jnp.int32(1))), jnp.ones(4)),
    "large steps": (lambda x: jax.lax.while_loop(lambda v: (v == v).all(), lambda v: v @ v * 1e-3, x), jnp.ones((512, 512))),
    "nested loops": (nested, jnp.int32(0)),
}
function, argument = programs[sys.argv[1]]
compiled = jax.jit(function).lower(argument).compile()
sent = []

def interrupt():
    time.sleep(0.5)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    compiled(argument)[0].block_until_ready() if sys.argv[1] == "an infinite while" else compiled(argument).block_until_ready()
    print("ended by itself")
except BaseException as e:
    print(type(e).__name__)
assert jax.jit(lambda x: x + 1)(jnp.ones(3)).sum() == 6  # the device is free again
print("seconds", time.monotonic() - sent[0])
"""


@pytest.mark.parametrize("name", ["an infinite while", "large steps", "nested loops"])
def test_interrupt(name):
    environment = {**os.environ, "JAX_PLATFORMS": "neuron"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    ended, seconds = done.stdout.strip().splitlines()[-2:]
    assert ended in ("KeyboardInterrupt", "JaxRuntimeError")
    assert float(seconds.split()[1]) < 15  # one where a core is idle, and a second program's compilation; by itself none would end


def test_a_handler_of_ones_own_decides():
    text = """
import os, signal, threading, time
hits = []
signal.signal(signal.SIGINT, lambda *_: hits.append(1))
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jax.lax.fori_loop(0, 200_000, lambda i, v: v * 1.0001 + i, x)).lower(jnp.ones(4096)).compile()
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
while time.monotonic() - begin < 1.5:
    f(jnp.ones(4096)).block_until_ready()
print(len(hits))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100, env={**os.environ, "JAX_PLATFORMS": "neuron"})
    assert done.returncode == 0 and done.stdout.strip() == "1", done.stderr

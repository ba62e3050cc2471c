"""Nothing that a program or another process does ends this one or damages what is saved."""

import signal
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_a_thousand_threads_compile_at_once():
    """Each its own program, all started together; every one right."""
    start, wrong = threading.Event(), []

    def one(i):
        start.wait()
        try:
            got = jax.jit(lambda x: x * i + jnp.arange(3, dtype=np.float32))(np.full(3, 2, np.float32))
            np.testing.assert_array_equal(got, 2 * i + np.arange(3))
        except BaseException as e:
            wrong.append(f"{i}: {e}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(1000)]
    for t in threads:
        t.start()
    start.set()
    for t in threads:
        t.join()
    assert not wrong, wrong[:3]


CACHED = """
import jax, sys, os, jax.numpy as jnp, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
print("ready", flush=True)
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    x = np.ones((4, 4), np.float32)
    got = jax.jit(lambda x: jnp.tanh(x @ x) + i)(x)
    np.testing.assert_allclose(got, np.tanh(x @ x) + i, rtol=1e-6)
    print(i, flush=True)
"""


def test_killed_while_it_writes_the_cache(tmp_path):
    """What a killed process leaves behind is read, or refused, by the next one, which computes all the same."""
    for turn in range(4):
        first = subprocess.Popen([sys.executable, "-c", CACHED, str(tmp_path), "0", "500"], stdout=subprocess.PIPE)
        for _ in range(3 + 3 * turn):
            first.stdout.readline()
        first.send_signal(signal.SIGKILL)
        first.wait()
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files
    for i, file in enumerate(files):  # and what a torn write could leave
        if i % 3 == 0:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CACHED, str(tmp_path), "0", "12"],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0 and done.stdout.split()[-1] == "11", done.stderr[-2000:]


def test_malformed_programs_are_errors():
    """Bytes of a real program, cut and changed, through the plugin's own compile call."""
    from jax._src.lib import xla_client
    from jaxlib import _jax

    client = jax.devices()[0].client
    lowered = jax.jit(lambda x: jnp.sort(jnp.tanh(x @ x.T), 0)).lower(np.ones((4, 4), np.float32))
    compiled = lowered.compile().runtime_executable()
    good = bytes(client.serialize_executable(compiled))
    rng = np.random.default_rng(0)
    devices = _jax.DeviceList(tuple(jax.devices()[:1]))
    for turn in range(60):
        bad = bytearray(good[: rng.integers(0, len(good))] if turn % 2 else good)
        for at in rng.integers(0, max(1, len(bad)), 4):
            if bad:
                bad[at] ^= 1 << rng.integers(0, 8)
        with pytest.raises(Exception):  # noqa: B017 - of several kinds, but never the end of the process
            client.deserialize_executable(bytes(bad), devices, xla_client.CompileOptions())
    client.deserialize_executable(good, devices, xla_client.CompileOptions())


def test_an_error_names_the_largest_tensors_and_leaves_the_device_usable():
    kept = jax.device_put(np.ones((1 << 20,), np.float32))
    with pytest.raises(RuntimeError, match=r"(?s)out of memory.*f32\[1048576\]"):
        jax.jit(lambda x: jnp.broadcast_to(x, (1 << 15, 1 << 20)) * 2)(kept).block_until_ready()
    assert float(jax.jit(jnp.sum)(kept)) == 1 << 20


def test_a_result_past_counting_is_an_error():
    """jaxlib ends the process where its own backends are asked for this."""
    with pytest.raises(jax.errors.JaxRuntimeError, match="more elements than can be counted"):
        jnp.zeros((1 << 31, 1 << 31, 4))
    with pytest.raises(jax.errors.JaxRuntimeError):
        jnp.zeros((1 << 30, 1 << 30))

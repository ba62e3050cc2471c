"""Listening: uvicorn with bounds. A connection that sends no request in time is closed; files for TLS; loopback unless told."""

import asyncio
import contextlib
import json
import resource
import socket

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trine.serve.app import app_of
from trine.serve.errors import Wrong, openai

HEAD_SECONDS = 30.0
HEAD_BYTES = 64 << 10
LINGER_SECONDS, LINGER_BYTES = 2.0, 4 << 20  # of a connection whose head was refused
CONNECTIONS = 4096


class Bounded(HttpToolsProtocol):
    """A connection whose first request must come within HEAD_SECONDS; and whose headers are at most HEAD_BYTES."""

    def connection_made(self, transport):
        super().connection_made(transport)
        self._first = self.loop.call_later(HEAD_SECONDS, self._nothing_came)
        self._head, self._in_head, self._refused = 0, True, False

    def data_received(self, data):
        if not self._refused:
            super().data_received(data)
        self._head = self._head + len(data) if self._in_head else 0
        if self._head > HEAD_BYTES and not self._refused and not self.transport.is_closing():
            self._refuse()
        elif self._head > LINGER_BYTES:
            self.transport.close()

    def _refuse(self):
        """Says why, and reads on for a moment: who is cut off while writing does not see an answer."""
        self._refused = True
        body = json.dumps(openai(Wrong(f"the request's head is longer than {HEAD_BYTES} bytes", 431))).encode()
        head = f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self._first.cancel()
        self._first = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def on_message_begin(self):
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self):
        self._in_head = False
        self._first.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc):
        self._first.cancel()
        super().connection_lost(exc)

    def _nothing_came(self):
        if not self.transport.is_closing():
            self.transport.close()


def raise_files():
    """As many open files as this process may have: a connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536, hard))
    return soft


def bound_socket(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen(2048)
    made.setblocking(False)
    return made


def config_of(app, cert=None, key=None):
    return uvicorn.Config(app, http=Bounded, ws="none", log_level="warning", access_log=False, server_header=False, lifespan="on", backlog=2048,
                          limit_concurrency=CONNECTIONS, timeout_keep_alive=30, h11_max_incomplete_event_size=64 << 10, ssl_certfile=cert, ssl_keyfile=key,
                          timeout_graceful_shutdown=5)  # fmt: skip


@contextlib.asynccontextmanager
async def listening(server, host, port, cert=None, key=None, app=None):
    """The port, while the block runs."""
    raise_files()
    sock = bound_socket(host, port)
    uv = uvicorn.Server(config_of(app or app_of(server), cert, key))
    uv.install_signal_handlers = lambda: None
    task = asyncio.ensure_future(serve(uv, sock))
    try:
        while not uv.started:
            if task.done():
                task.result()
                raise RuntimeError("the server did not start")
            await asyncio.sleep(0.005)
        yield sock.getsockname()[1]
    finally:
        uv.should_exit = True
        await task


async def serve(uv, sock):
    """uvicorn's loop without its handling of signals, which is the command's."""
    with contextlib.suppress(asyncio.CancelledError):
        await uv._serve([sock])

"""`trine monitor --prometheus PORT`: /metrics for Prometheus, /document as neuron-monitor prints it.

Listens on loopback unless told otherwise; elsewhere only with a token. Requests are bounded by the listener that pages use
(trine.pages.listener). Counters are read when somebody asks, and at most ten times a second.
"""

import hmac
import pathlib
import ssl
import sys
import threading
import time

from trine import _core
from trine.command import OK, OUTSIDE, USAGE, Stop, note
from trine.pages import listener
from trine.pages.listener import loopback

SECONDS = 10  # a client may take for its request and to read the answer
FEWEST_S = 0.1  # between two readings
AT_ONCE = 16


class Counters:
    """The newest document and metrics; read again when they are older than FEWEST_S."""

    def __init__(self, asked):
        config = pathlib.Path(asked.config_file).read_text() if asked.config_file else ""
        self._watcher = _core.Watcher(asked.folder or "", asked.instance or "", config)
        self._lock, self._at, self._last = threading.Lock(), 0.0, None
        self._exposition = _core.Exposition()

    def document(self):
        """As neuron-monitor prints it, since the reading before."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._at >= FEWEST_S:
                self._last = (self._watcher.document(max(now - self._at, 1.0) if self._last else 5.0), None)
                self._at = now
            return self._last[0]

    def metrics(self):
        """The same in Prometheus's text format, as bytes."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or self._last[1] is None or now - self._at >= FEWEST_S:
                text = self._watcher.exposition(max(now - self._at, 1.0) if self._last else 5.0)
                self._last, self._at = ((self._last or ("{}", None))[0], text), now
            return self._last[1]


class Piped:
    """Documents from stdin, as `neuron-monitor | neuron-monitor-prometheus.py` has it."""

    def __init__(self):
        self._exposition, self._text, self._document = _core.Exposition(), "", "{}"
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                self._text, self._document = self._exposition.text(line), line
            except (ValueError, RuntimeError) as e:
                note(f"stdin: {e}")

    def document(self):
        """The last line."""
        return self._document

    def metrics(self):
        """Of the last line."""
        return self._text.encode()


class Server(listener.Listener):
    """Whoever may reach it from elsewhere has the token, by whatever name it calls this machine."""

    def __init__(self, host, port, counters, token):
        self.counters, self.token = counters, token
        super().__init__(Handler, host, port, () if loopback(host) else None, AT_ONCE)


class Handler(listener.Handler):
    """GET of two paths."""

    timeout, server_version = SECONDS, "trine-monitor"
    always = listener.Handler.always | {"Content-Security-Policy": "default-src 'none'"}

    def asked(self, path, query):
        """The answer, or why not."""
        given = self.headers.get("Authorization", "")
        if self.server.token and not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self.send(401, b"expected the token of --token-file\n", more={"WWW-Authenticate": "Bearer"})
        elif path == "/metrics":
            self.send(200, self.server.counters.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/document":
            self.send(200, self.server.counters.document().encode(), "application/json")
        else:
            self.refuse(404, f"found {path[:80]}, expected /metrics or /document")


def run(asked):
    """Serves until Ctrl-C."""
    address, port = asked.address, int(asked.prometheus)
    token = pathlib.Path(asked.token_file).read_text().strip() if asked.token_file else ""
    if not loopback(address) and not token:
        raise Stop(USAGE, f"--address {address} is seen by others: give --token-file, whose line Prometheus sends as bearer token")
    if bool(asked.cert_file) != bool(asked.key_file):
        raise Stop(USAGE, "--cert-file and --key-file go together")
    if not asked.stdin and not (asked.folder or _core.counters_folder()):
        raise Stop(OUTSIDE, "TRINE_COUNTERS=off: processes publish nothing")
    counters = Piped() if asked.stdin else Counters(asked)
    with Server(address, port, counters, token) as server:
        scheme = "http"
        if asked.cert_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(asked.cert_file, asked.key_file)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        seen = "loopback only" if loopback(address) else "with a token"
        note(f"metrics on {scheme}://{address}:{server.server_port}/metrics — {seen}   (Ctrl-C ends)")
        server.serve_forever(poll_interval=0.5)
    return OK

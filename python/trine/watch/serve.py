"""`trine monitor --prometheus PORT`: /metrics for Prometheus, /document as neuron-monitor prints it.

Listens on loopback unless told otherwise; elsewhere only with a token. Requests are bounded: GET alone, short lines, a time
limit, and few at once. Counters are read when somebody asks, and at most ten times a second.
"""

import hmac
import http.server
import ipaddress
import pathlib
import socketserver
import ssl
import sys
import threading
import time

from trine import _core
from trine.command import OK, OUTSIDE, USAGE, Stop, note

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
        """The same in Prometheus's text format."""
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
        return self._text


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """At most AT_ONCE requests; more wait in the queue of the socket."""

    daemon_threads, allow_reuse_address, request_queue_size = True, True, AT_ONCE

    def __init__(self, address, counters, token):
        self.counters, self.token = counters, token
        self.is_local = is_loopback(address[0])
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, Handler)

    def process_request(self, request, client_address):
        """One thread each, while there is room."""
        self._room.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        """Its room is free again at the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""


class Handler(http.server.BaseHTTPRequestHandler):
    """GET of two paths."""

    timeout, server_version, sys_version, protocol_version = SECONDS, "trine-monitor", "", "HTTP/1.1"

    def do_GET(self):  # noqa: N802, http.server's name
        """The answer, or why not."""
        if not self._may():
            return
        path = self.path.split("?")[0]
        if path == "/metrics":
            self._send(200, "text/plain; version=0.0.4; charset=utf-8", self.server.counters.metrics())
        elif path == "/document":
            self._send(200, "application/json", self.server.counters.document())
        else:
            self._send(404, "text/plain; charset=utf-8", f"found {path}, expected /metrics or /document\n")

    def _may(self):
        host = self.headers.get("Host", "").rsplit(":", 1)[0].strip("[]")
        if self.server.is_local and host not in ("localhost", "") and not is_loopback(host):  # another site's name for us
            self._send(403, "text/plain; charset=utf-8", "expected a request for localhost\n")
            return False
        given = self.headers.get("Authorization", "")
        if self.server.token and not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self._send(401, "text/plain; charset=utf-8", "expected the token of --token-file\n", {"WWW-Authenticate": "Bearer"})
            return False
        return True

    def _send(self, code, kind, text, more=None):
        body = text.encode()
        self.send_response(code)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
                   "Content-Security-Policy": "default-src 'none'"}  # fmt: skip
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: requests come each second."""


def is_loopback(host):
    """localhost, 127.0.0.0/8 or ::1."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(asked):
    """Serves until Ctrl-C."""
    address, port = asked.address, int(asked.prometheus)
    token = pathlib.Path(asked.token_file).read_text().strip() if asked.token_file else ""
    if not is_loopback(address) and not token:
        raise Stop(USAGE, f"--address {address} is seen by others: give --token-file, whose line Prometheus sends as bearer token")
    if bool(asked.cert_file) != bool(asked.key_file):
        raise Stop(USAGE, "--cert-file and --key-file go together")
    if not asked.stdin and not (asked.folder or _core.counters_folder()):
        raise Stop(OUTSIDE, "TRINE_COUNTERS=off: processes publish nothing")
    counters = Piped() if asked.stdin else Counters(asked)
    with Server((address, port), counters, token) as server:
        scheme = "http"
        if asked.cert_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(asked.cert_file, asked.key_file)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        seen = "loopback only" if is_loopback(address) else "with a token"
        note(f"metrics on {scheme}://{address}:{server.server_port}/metrics — {seen}   (Ctrl-C ends)")
        server.serve_forever(poll_interval=0.5)
    return OK

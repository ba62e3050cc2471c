"""A listener that can be left open: bounded connections, short requests, GET alone, the Host header checked.

What is answered, and to whom, is the handler's: pages with a token in a cookie (server.py), metrics with a bearer token
(trine.watch.serve). Not a server of models, and not for the internet.
"""

import http.server
import ipaddress
import socket
import threading

from trine.command import OUTSIDE, USAGE, Stop

PATH_MOST = 16 << 10  # bytes of a request's path with its query
AT_ONCE = 32  # requests that are answered at the same time; more wait at the door, and the kernel's queue after that
IDLE_S = 30  # a connection that says nothing, or reads nothing, for so long is closed


def loopback(host):
    """localhost, 127.0.0.0/8 or ::1."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD that come through the checks reach `asked`."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    server_version, sys_version = "trine", ""
    always = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}  # headers of every answer

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, code, body=b"", kind="text/plain; charset=utf-8", more=()):
        """An answer with its headers."""
        self.send_response(code)
        for name, value in {**self.always, "Content-Type": kind, "Content-Length": str(len(body)), **dict(more)}.items():
            self.send_header(name, value)
        if code >= 400:  # what follows on this connection is not trusted to be a request
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, code, text):
        self.send(code, f"{text}\n".encode())

    def host_known(self):
        """A page of another name that resolves here (DNS rebinding) sends its own name as Host."""
        given = self.headers.get_all("Host") or []
        if self.server.names is None:
            return True
        if len(given) != 1:
            return False
        name, _, port = given[0].rpartition(":")
        if not port.isdigit():
            name, port = given[0], "80"
        return int(port) == self.server.server_port and name.strip("[]").lower() in self.server.names

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if len(self.path) > PATH_MOST:
            return self.refuse(414, f"found a path of {len(self.path)} bytes, expected at most {PATH_MOST}")
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            return self.refuse(400, "a GET with a body is not answered here")
        if not self.host_known():
            return self.refuse(421, "the Host header names another machine")
        try:
            path, _, query = self.path.partition("?")
            return self.asked(path, query)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True


class Listener(http.server.ThreadingHTTPServer):
    """`names`: more names by which requests may call this machine; None: any will do, as every request proves who sent it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler, host="127.0.0.1", port=0, names=(), at_once=AT_ONCE):
        self.connections = threading.BoundedSemaphore(at_once)
        self.host = host
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), handler)
        except OSError as e:
            raise Stop(OUTSIDE, f"cannot listen on {host} port {port}: {e.strerror or e}") from None
        except OverflowError:
            raise Stop(USAGE, f"found port {port}, expected one from 0 to 65535") from None
        self.names = None if names is None else {"127.0.0.1", "localhost", "::1", host.lower(), *(n.lower() for n in names)}
        if self.names and not loopback(host):
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def server_bind(self):
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]  # no look-up of the name

    def process_request(self, request, client_address):
        if not self.connections.acquire(timeout=1):  # full: the newest goes, those being answered stay
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request, client_address):
        pass  # a client that went away

"""The one HTTP server of all pages, on the bounded listener (listener.py): loopback unless told, and a token.

It answers GET from a table of functions and a fixed set of files; it never reads a path that a request names. A
function gets the query as a Query and returns a JSON-able value or bytes.
"""

import contextlib
import hmac
import http.cookies
import json
import math
import secrets
import signal
import socket
import sys
import threading
import urllib.parse

from trine.command import Stop
from trine.pages import listener
from trine.pages.listener import AT_ONCE, loopback  # noqa: F401, the first for who fills the server

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
# Of a program of others under its own folder (perfetto.py): it compiles WebAssembly and styles itself, and is held here all the same.
GUEST_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}  # fmt: skip
KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "json": "application/json", "bin": "application/octet-stream",
         "svg": "image/svg+xml", "txt": "text/plain; charset=utf-8", "wasm": "application/wasm", "woff2": "font/woff2", "png": "image/png", "map": "application/json"}  # fmt: skip


class Bad(ValueError):
    """What a request got wrong: answered with 400 and this text."""


class Query:
    """A request's parameters, each read with its type and its bounds."""

    def __init__(self, text):
        try:
            pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=64)
        except ValueError:
            raise Bad("found more than 64 parameters, expected fewer") from None
        self.values = dict(pairs)

    def text(self, name, otherwise=None):
        if name not in self.values and otherwise is None:
            raise Bad(f"parameter {name} is missing")
        return self.values.get(name, otherwise)

    def real(self, name, least, most, otherwise=None):
        found = self.text(name, None if otherwise is None else str(otherwise))
        try:
            value = float(found)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise Bad(f'{name}: found "{found[:40]}", expected a number from {least:g} to {most:g}')
        return value

    def whole(self, name, least, most, otherwise=None):
        value = self.real(name, least, most, otherwise)
        if value != int(value):
            raise Bad(f"{name}: found {value:g}, expected a whole number")
        return int(value)

    def wholes(self, name, count, least=0, most=2**53):
        parts = self.text(name).split(",")
        if len(parts) > count:
            raise Bad(f"{name}: found {len(parts)} numbers, expected at most {count}")
        try:
            values = [int(p) for p in parts]
        except ValueError:
            raise Bad(f"{name}: expected whole numbers with commas between them") from None
        if not all(least <= v <= most for v in values):
            raise Bad(f"{name}: expected numbers from {least} to {most}")
        return values


def plain(value):
    """Numbers that JSON lacks become null, and NumPy's become Python's."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_bytes(value):
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return json.dumps(plain(value), separators=(",", ":")).encode()


class Handler(listener.Handler):
    always = HEADERS

    def answer(self, code, body=b"", kind="txt", **more):
        self.send(code, body, KINDS[kind], more)

    def refuse(self, code, text):
        self.answer(code, json_bytes({"error": text}), "json")

    def token_sent(self, query):
        """"cookie", "query", "bearer", or None where no right one came."""
        cookies = http.cookies.SimpleCookie()
        with contextlib.suppress(http.cookies.CookieError):
            cookies.load(self.headers.get("Cookie", ""))
        name = self.server.cookie
        sent = {"cookie": cookies[name].value if name in cookies else "", "query": query.values.get("token", ""),
                "bearer": self.headers.get("Authorization", "").removeprefix("Bearer ")}  # fmt: skip
        right = self.server.token.encode()
        return next((by for by, text in sent.items() if hmac.compare_digest(text.encode(), right)), None)

    def asked(self, path, query):
        try:
            query = Query(query)
            sent = self.token_sent(query)
            if not sent:
                return self.refuse(403, "no token: open the address that the command printed")
            if sent == "query" and path in self.server.pages:  # the token leaves the address bar
                cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
                return self.answer(303, **{"Location": path, "Set-Cookie": cookie})
            return self.route(path, query)
        except Bad as e:
            return self.refuse(400, str(e))

    def route(self, path, query):
        if path in self.server.pages:
            return self.answer(200, self.server.pages[path], "html")
        if path in self.server.files:
            held = self.server.files[path]
            more = {} if isinstance(held, bytes) else {"Content-Security-Policy": GUEST_POLICY}
            kind = path.rsplit(".", 1)[-1]
            return self.answer(200, held if isinstance(held, bytes) else held.read_bytes(), kind if kind in KINDS else "bin", **more)
        function = self.server.calls.get(path)
        if not function:
            return self.refuse(404, f"found no {path[:80]}")
        try:
            with self.server.gate:
                value = function(query)
        except Bad:
            raise
        except Stop as e:
            return self.refuse(400, str(e))
        except Exception as e:  # one request's trouble is not the server's
            print(f"trine: {path}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            return self.refuse(500, f"{type(e).__name__}: {e}")
        body, kind = (value, "bin") if isinstance(value, (bytes, bytearray, memoryview)) else (json_bytes(value), "json")
        return self.answer(200, body, kind)


class Server(listener.Listener):
    """`pages` {path: HTML}, `files` {path: bytes, or the Path of a guest's file}, `calls` {path: function of a Query}."""

    def __init__(self, pages, files, calls, host="127.0.0.1", port=0, token=None, names=()):
        self.pages = {path: text.encode() for path, text in pages.items()}
        self.files, self.calls = files, calls
        self.token = token or secrets.token_urlsafe(24)
        self.gate = threading.BoundedSemaphore(8)  # functions at work at the same time
        super().__init__(Handler, host, port, names)
        self.cookie = f"trine_{self.server_port}"

    @property
    def url(self):
        """The address to open, with the token in it."""
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.server_port}/?token={self.token}"

    @contextlib.contextmanager
    def running(self):
        """In a thread, for as long as the block lasts."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


def serve_until_interrupted(server, browser=False):
    """Prints the address, opens a browser where asked, answers until Ctrl-C."""
    if threading.current_thread() is threading.main_thread():
        for which in (signal.SIGINT, signal.SIGTERM):  # commands start with Ctrl-C's default, which would end without closing
            signal.signal(which, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        announce(server, browser)
        server.serve_forever(poll_interval=0.2)
    server.server_close()
    return 0


def announce(server, browser):
    if not loopback(server.host):
        print(f"reachable from other machines at {server.host}: whoever has the address with its token sees this page", file=sys.stderr)
    print(f"open  {server.url}   (Ctrl-C ends)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(server.url)

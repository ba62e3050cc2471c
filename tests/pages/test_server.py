"""The pages' server: who is let in, what is bounded, and that it ends."""

import contextlib
import http.client
import json
import socket
import threading

import pytest

from trine.command import Stop
from trine.pages import server


@pytest.fixture
def running():
    calls = {"/api/echo": lambda q: {"n": q.whole("n", 0, 10)}, "/api/bytes": lambda q: b"\x01\x02", "/api/breaks": lambda q: 1 / 0, "/api/nan": lambda q: {"x": float("nan")}}
    with server.Server({"/": "<p>page"}, {"/static/a.js": b"1"}, calls).running() as s:
        yield s


def ask(s, path, token=True, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", s.server_port, timeout=20)
    if token:
        headers.setdefault("Authorization", f"Bearer {s.token}")
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def test_only_loopback_by_default(running):
    assert running.server_address[0] == "127.0.0.1"


def test_a_token_is_needed_everywhere(running):
    for path in ("/", "/static/a.js", "/api/echo?n=1", "/nowhere"):
        answer, body = ask(running, path, token=False)
        assert answer.status == 403 and "token" in json.loads(body)["error"], path
    assert ask(running, "/", token=False, Authorization="Bearer wrong")[0].status == 403
    assert ask(running, "/", token=False, Cookie=f"trine_{running.server_port}=wrong; x=;;=")[0].status == 403


def test_the_token_moves_from_the_address_to_a_cookie(running):
    answer, _ = ask(running, f"/?token={running.token}", token=False)
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 303 and answer.headers["Location"] == "/" and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    answer, body = ask(running, "/", token=False, Cookie=cookie.split(";")[0])
    assert answer.status == 200 and body == b"<p>page"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "", "[::1"])
def test_another_name_for_this_machine_is_refused(running, host):
    assert ask(running, "/", Host=host.format(port=running.server_port))[0].status == 421


def test_names_of_this_machine(running):
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert ask(running, "/", Host=f"{host}:{running.server_port}")[0].status == 200


def test_policy_forbids_other_machines(running):
    headers = ask(running, "/")[0].headers
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers and headers["Referrer-Policy"] == "no-referrer"


def test_calls(running):
    answer, body = ask(running, "/api/echo?n=3")
    assert answer.status == 200 and json.loads(body) == {"n": 3}
    answer, body = ask(running, "/api/bytes")
    assert body == b"\x01\x02" and answer.headers["Content-Type"] == "application/octet-stream"
    assert json.loads(ask(running, "/api/nan")[1]) == {"x": None}
    assert ask(running, "/api/echo?n=3", method="HEAD")[1] == b""


@pytest.mark.parametrize("path, code", [("/api/echo", 400), ("/api/echo?n=x", 400), ("/api/echo?n=11", 400), ("/api/echo?n=1.5", 400), ("/api/echo?n=nan", 400), ("/api/breaks", 500), ("/static/../server.py", 404),
                                        ("/static/%2e%2e/server.py", 404), ("/" + "a" * 20000, 414), ("/?" + "a=1&" * 100, 400)])  # fmt: skip
def test_bad_requests_get_an_answer(running, path, code, capsys):
    answer, body = ask(running, path)
    assert answer.status == code and json.loads(body)["error"]
    assert ask(running, "/")[0].status == 200


def test_a_guests_files_have_its_own_policy(tmp_path):
    (tmp_path / "a.wasm").write_bytes(b"asm")
    with server.Server({"/": ""}, {"/guest/a.wasm": tmp_path / "a.wasm"}, {}).running() as s:
        answer, body = ask(s, "/guest/a.wasm")
        assert body == b"asm" and answer.headers["Content-Type"] == "application/wasm" and "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert ask(s, "/guest/a.wasm", token=False)[0].status == 403 and ask(s, "/guest/../a.wasm")[0].status == 404


def test_other_methods_and_bodies_are_refused(running):
    assert ask(running, "/", method="POST", body=b"x")[0].status == 501
    assert ask(running, "/", method="GET", body=b"x")[0].status == 400


def test_bytes_that_are_no_request_end_the_connection(running):
    for junk in (b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", b"GET /" + b"x" * 70000):
        with socket.create_connection(("127.0.0.1", running.server_port), timeout=20) as s, contextlib.suppress(OSError):
            s.sendall(junk)
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
    assert ask(running, "/")[0].status == 200


def test_silent_connections_are_closed_and_do_not_keep_others_out(running, monkeypatch):
    monkeypatch.setattr(server.Handler, "timeout", 0.3)
    held = [socket.create_connection(("127.0.0.1", running.server_port), timeout=20) for _ in range(server.AT_ONCE + 8)]
    assert ask(running, "/")[0].status == 200
    assert held[0].recv(1) == b""
    for s in held:
        s.close()


def test_many_at_once(running):
    results = []
    threads = [threading.Thread(target=lambda: results.append(ask(running, "/api/echo?n=1")[0].status)) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [200] * 24


def test_a_port_in_use_is_said(running):
    with pytest.raises(Stop, match="cannot listen on 127.0.0.1 port"):
        server.Server({}, {}, {}, port=running.server_port)

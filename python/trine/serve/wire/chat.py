"""POST /v1/chat/completions."""

import time

from trine.serve import grammar, http, job, template, tools
from trine.serve.errors import Wrong

REASONS = {"stop": "stop", "length": "length", "cancelled": "stop"}


def wanted_form(body):
    """The grammar of `response_format`, or of vLLM's `structured_outputs` and guided_* fields."""
    form = body.get("response_format")
    if form is not None:
        if not isinstance(form, dict) or form.get("type") not in ("text", "json_object", "json_schema"):
            raise Wrong("response_format.type must be text, json_object or json_schema", 400, "response_format")
        if form["type"] == "json_object":
            return grammar.of_schema({"type": "object"})
        if form["type"] == "json_schema":
            given = form.get("json_schema")
            if not isinstance(given, dict) or "schema" not in given:
                raise Wrong("response_format.json_schema must be {name, schema}", 400, "response_format")
            return grammar.of_schema(given["schema"])
    given = body.get("structured_outputs") or {}
    if not isinstance(given, dict):
        raise Wrong("structured_outputs must be an object", 400, "structured_outputs")
    given = given | {name: body[f"guided_{name}"] for name in ("json", "regex", "grammar", "choice") if body.get(f"guided_{name}") is not None}
    if (schema := given.get("json")) is not None:
        return grammar.of_schema(http.parsed(schema) if isinstance(schema, str) else schema, "structured_outputs")
    for name, read in (("regex", grammar.of_regex), ("grammar", grammar.of_ebnf), ("choice", grammar.of_choice)):
        if given.get(name) is not None:
            return read(given[name])
    return grammar.of_schema({"type": "object"}) if given.get("json_object") else None


async def prompt_of(server, model, messages, calling, extra=None, generation=True):
    """Tokens of a conversation, made off the event loop."""
    limit = model.context * model.text.longest

    def make():
        size = sum(len(m.get("content") or "") for m in messages if isinstance(m, dict) and isinstance(m.get("content"), (str, list))) if isinstance(messages, list) else 0
        if size > limit:
            raise Wrong(f"This model's maximum context length is {model.context} tokens; the messages have {size} characters.", 400, "messages", "context_length_exceeded")
        return model.text.encode(template.render(model.text, messages, calling.tools if calling else None, generation, extra), add_special=False)

    return await server.desk.off_loop(make)


async def job_of(server, body, key, messages=None):
    model = server.model_named(body.get("model"))
    calling = tools.Calling(body)
    extra = body.get("chat_template_kwargs")
    if extra is not None and not isinstance(extra, dict):
        raise Wrong("chat_template_kwargs must be an object", 400, "chat_template_kwargs")
    reserved = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}
    extra = {k: v for k, v in (extra or {}).items() if k not in reserved}
    sampling = job.sampling_of(body, model)
    shown = job.flag(body, "logprobs")
    top = job.number(body, "top_logprobs", 0, 20, 0, int)
    if top and not shown:
        raise Wrong("top_logprobs needs logprobs: true", 400, "top_logprobs")
    sampling["logprobs"] = top if shown else -1
    form = calling.grammar() or wanted_form(body)
    asked = job.number(body, "max_completion_tokens", 1, 1 << 31, None, int, ("max_tokens",))
    prompt = await prompt_of(server, model, body.get("messages") if messages is None else messages, calling, extra)
    sampling["max_tokens"] = job.room_for(prompt, asked, model.context)
    made = job.Job(prompt, sampling, job.stops_of(body), form, key=key.name, adapter=model.adapter, session=job.text(body, "session"),
                   special=job.flag(body, "skip_special_tokens", True) is False)  # fmt: skip
    return model, made, calling


def logprob(text, token, value, top=None):
    raw = text.special[token].encode() if token in text.special else text.pieces[token]
    out = {"token": raw.decode("utf-8", "replace"), "logprob": max(float(value), -9999.0) if value is not None else 0.0, "bytes": list(raw)}
    if top is not None:
        out["top_logprobs"] = [logprob(text, t, v) for t, v in top]
    return out


def usage_of(run, trine=False):
    prompt, written, cached = run.usage()
    out = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
           "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
           "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}  # fmt: skip
    return out | ({"trine": run.trine()} if trine else {})


def call_form(calls, index=False):
    return [({"index": i} if index else {}) | {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for i, c in enumerate(calls)]  # fmt: skip


def message_of(choice, calling):
    text, calls = calling.found(choice.text)
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    reason = REASONS.get(choice.reason, "stop")
    if calls:
        message["tool_calls"] = call_form(calls)
        reason = "tool_calls" if choice.reason == "stop" and calling.force in (None, "") else reason
    return message, reason


def head(body, model, kind, number):
    return {"id": number, "object": kind, "created": int(time.time()), "model": body.get("model") or model.name,
            "system_fingerprint": model.fingerprint, "service_tier": "default"}  # fmt: skip


async def answer(server, body, key, trine=False):
    """The whole answer as a dict: for HTTP, batches and routes alike."""
    model, made, calling = await job_of(server, body, key)
    run = await (await server.desk.submit(made)).all()
    choices = []
    for at, choice in enumerate(run.choices):
        message, reason = message_of(choice, calling)
        shown = {"content": [logprob(model.text, *entry) for entry in choice.logprobs], "refusal": None} if made.sampling["logprobs"] >= 0 else None
        choices.append({"index": at, "message": message, "logprobs": shown, "finish_reason": reason})
    return head(body, model, "chat.completion", tools.new_id("chatcmpl")) | {"choices": choices, "usage": usage_of(run, trine)}


async def pieces(server, body, key, trine):
    model, made, calling = await job_of(server, body, key)
    first = head(body, model, "chat.completion.chunk", tools.new_id("chatcmpl"))
    options = body.get("stream_options") or {}
    shows_usage = isinstance(options, dict) and options.get("include_usage")
    run = await server.desk.submit(made)

    def chunk(at, delta, reason=None, probs=None):
        one = {"index": at, "delta": delta, "logprobs": probs, "finish_reason": reason}
        return http.sse(first | {"choices": [one]} | ({"usage": None} if shows_usage else {}))

    sieves = [tools.Sieve(calling) for _ in run.choices]
    for at in range(len(run.choices)):
        yield chunk(at, {"role": "assistant", "content": None if calling.force is not None else "", "refusal": None})
    if calling.force:
        name = {"id": tools.new_id(), "type": "function", "function": {"name": calling.force, "arguments": ""}}
        for at in range(len(run.choices)):
            yield chunk(at, {"tool_calls": [{"index": 0} | name]})
    async for piece in run:
        at = piece["choice"]
        if calling.force:
            if piece["text"]:
                yield chunk(at, {"tool_calls": [{"index": 0, "function": {"arguments": piece["text"]}}]})
            if "reason" in piece:
                yield chunk(at, {}, REASONS.get(piece["reason"], "stop"))
            continue
        text = sieves[at].push(piece["text"])
        probs = None
        if made.sampling["logprobs"] >= 0 and "token" in piece:
            probs = {"content": [logprob(model.text, piece["token"], piece["logprob"], piece["top"])], "refusal": None}
        if text or probs:
            yield chunk(at, {"content": text}, None, probs)
        if "reason" in piece:
            left, calls = sieves[at].end()
            if left:
                yield chunk(at, {"content": left})
            if calls:
                yield chunk(at, {"tool_calls": call_form(calls, index=True)})
            yield chunk(at, {}, "tool_calls" if calls and piece["reason"] == "stop" else REASONS.get(piece["reason"], "stop"))
    if shows_usage or trine:
        yield http.sse(first | {"choices": [], "usage": usage_of(run, trine)})
    yield http.sse("[DONE]")


async def create(server, call):
    body = call.body
    if job.flag(body, "stream"):
        return http.Events(await http.started(pieces(server, body, call.key, call.wants_trine)))
    return http.Json(await http.unless_gone(call, answer(server, body, call.key, call.wants_trine)))

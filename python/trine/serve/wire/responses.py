"""/v1/responses: answers that are stored, go on from each other or from a conversation, run in the background and stream again.

A response is one list of events, numbered. Whoever streams reads that list; it is kept with the response, so a stream can
be taken up after any of its numbers.
"""

import asyncio
import time

from trine.serve import http, job, tools
from trine.serve.errors import Wrong
from trine.serve.wire import chat

KEEP_SECONDS = 30 * 86400.0
CHAIN = 1000
ECHOED = ("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id", "temperature", "tool_choice", "tools",
          "top_p", "truncation", "user", "text", "reasoning", "service_tier", "background", "store", "prompt_cache_key", "safety_identifier", "max_tool_calls", "top_logprobs")  # fmt: skip


def with_id(item):
    kind, number = item.get("type") or "message", item.get("id")
    if not isinstance(kind, str) or (number is not None and not isinstance(number, str)):
        raise Wrong("an item's type and id are strings", 400, "input")
    prefix = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}.get(kind, "item")
    return item | {"id": number or tools.new_id(prefix), "type": kind}


def input_items(given):
    """The items of `input`, each with an id."""
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(i, dict) for i in given):
        raise Wrong("input must be a string or a list of items", 400, "input")
    items = [with_id(i) for i in given]
    if len({i["id"] for i in items}) < len(items):
        raise Wrong("two items have the same id", 400, "input")
    return items


def messages_of(items):
    """Items as the messages of a chat."""
    out = []
    for item in items:
        kind = item["type"]
        if kind == "message":
            out.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "type": "function", "function": {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}}
            if out and out[-1]["role"] == "assistant" and "tool_calls" in out[-1]:
                out[-1]["tool_calls"].append(call)
            else:
                out.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            out.append({"role": "tool", "tool_call_id": str(item.get("call_id")), "content": item.get("output")})
        elif kind not in ("reasoning", "item_reference"):
            raise Wrong(f"an input item of type {kind!r} is not known here", 400, "input")
    return out


def chain(server, number, owner):
    """Items of a response and of all it went on from, oldest first."""
    found = []
    for _ in range(CHAIN):
        stored = server.store.get("response", number, owner)
        if stored is None:
            raise Wrong(f"Previous response with id '{str(number)[:100]}' not found.", 404, "previous_response_id", "previous_response_not_found")
        found.append(stored)
        number = stored["response"].get("previous_response_id")
        if not number:
            break
    return [item for one in reversed(found) for item in [*one["input"], *one["response"]["output"]]]


def as_chat(body, items):
    messages = messages_of(items)
    if instructions := job.text(body, "instructions"):
        messages.insert(0, {"role": "system", "content": instructions})
    out = {name: body[name] for name in ("model", "temperature", "top_p", "seed", "top_k", "min_p", "structured_outputs", "chat_template_kwargs") if body.get(name) is not None}
    out |= {"messages": messages, "max_tokens": body.get("max_output_tokens")}
    if given := body.get("tools"):
        if not isinstance(given, list) or not all(isinstance(t, dict) and t.get("type") == "function" for t in given):
            raise Wrong("tools: this server runs no tools itself; functions are what it can call", 400, "tools")
        out["tools"] = [{"type": "function", "function": t.get("function") or {k: t.get(k) for k in ("name", "description", "parameters")}} for t in given]
        if body.get("tool_choice") is not None:
            out["tool_choice"] = body["tool_choice"]
    form = (body.get("text") or {}).get("format") if isinstance(body.get("text"), dict) else None
    if isinstance(form, dict) and form.get("type") == "json_schema":
        out["response_format"] = {"type": "json_schema", "json_schema": {"name": form.get("name"), "schema": form.get("schema")}}
    elif isinstance(form, dict) and form.get("type") == "json_object":
        out["response_format"] = {"type": "json_object"}
    include = body.get("include") or []
    if isinstance(include, list) and "message.output_text.logprobs" in include:
        out |= {"logprobs": True, "top_logprobs": body.get("top_logprobs") or 0}
    return out


async def fitting(server, body, items, key):
    """The job; with truncation "auto" the oldest items are left out until it fits."""
    made = as_chat(body, items)
    while True:
        try:
            return await chat.job_of(server, made, key)
        except Wrong as wrong:
            oldest = next((i for i, m in enumerate(made["messages"][:-1]) if m["role"] not in ("system", "developer")), None)
            if body.get("truncation") != "auto" or wrong.code != "context_length_exceeded" or oldest is None:
                raise
            del made["messages"][oldest]


class Response:
    """One response: its request, its stored form, its events."""

    def __init__(self, server, body, owner, key):
        self.server, self.body, self.owner, self.key = server, body, owner, key
        self.events, self.changed, self.over = [], asyncio.Event(), False
        self.input = input_items(body.get("input"))
        self.store = body.get("store") is not False
        conversation = body.get("conversation")
        self.conversation = conversation.get("id") if isinstance(conversation, dict) else conversation
        if not isinstance(self.conversation, (str, type(None))) or not isinstance(body.get("previous_response_id"), (str, type(None))):
            raise Wrong("conversation and previous_response_id are ids", 400, "conversation")
        if self.conversation and body.get("previous_response_id"):
            raise Wrong("previous_response_id and conversation cannot both be given", 400, "conversation")
        self.history = self._history()
        if self.conversation and {i["id"] for i in self.input} & {i["id"] for i in self.history}:
            raise Wrong("the conversation has an item with this id already", 400, "input")
        if not self.input and not self.history and not body.get("instructions"):
            raise Wrong("input is required", 400, "input")
        self.shown = {"id": tools.new_id("resp"), "object": "response", "created_at": float(int(time.time())), "status": "queued" if body.get("background") else "in_progress",
                      "error": None, "incomplete_details": None, "model": body.get("model") or server.model.name, "output": [], "usage": None}  # fmt: skip
        defaults = {"parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": [], "metadata": {}, "truncation": "disabled",
                    "store": self.store, "background": bool(body.get("background")), "text": {"format": {"type": "text"}}}  # fmt: skip
        self.shown |= {name: body[name] if body.get(name) is not None else defaults.get(name) for name in ECHOED}
        if self.conversation:
            self.shown["conversation"] = {"id": self.conversation}

    def _history(self):
        if self.body.get("previous_response_id"):
            return chain(self.server, self.body["previous_response_id"], self.owner)
        if self.conversation:
            if self.server.store.get("conversation", self.conversation, self.owner) is None:
                raise Wrong(f"Conversation with id '{str(self.conversation)[:100]}' not found.", 404, "conversation")
            return self.server.store.items(self.conversation)
        return []

    def event(self, kind, **fields):
        made = {"type": kind, "sequence_number": len(self.events)} | fields
        self.events.append(made)
        self.changed.set()
        self.changed = asyncio.Event()
        return made

    def whole(self, kind):
        return self.event(f"response.{kind}", response=dict(self.shown))

    def save(self):
        if self.store:
            body = {"response": self.shown, "input": self.input, "body": self.body, "events": self.events if self.over else []}
            self.server.store.put("response", self.shown["id"], self.owner, body, time.time() + KEEP_SECONDS)

    async def run(self, prepared=None):
        """Computes; gives events as they are made."""
        try:
            model, made, calling = prepared or await self.prepare()
            self.shown["status"] = "in_progress"
            yield self.whole("created")
            yield self.whole("in_progress")
            run = await self.server.desk.submit(made)
            async for one in self._items(model, run, calling):
                yield one
            self._complete(run)
        except Wrong as wrong:
            self.shown |= {"status": "failed", "error": {"code": "server_error" if wrong.status >= 500 else "invalid_prompt", "message": wrong.message}}
            self.over = True
            yield self.whole("failed")
            self.save()
            return
        last = self.whole("incomplete" if self.shown["status"] == "incomplete" else "completed")
        self.over = True
        self.save()
        if self.conversation and self.store:
            self.server.store.append(self.conversation, [*self.input, *self.shown["output"]])
        self.changed.set()
        yield last

    async def prepare(self):
        return await fitting(self.server, self.body, [*self.history, *self.input], self.key)

    async def _items(self, model, run, calling):
        """The events of the output's items while tokens come."""
        text = Message(self, model)
        forced = FunctionCall(self, calling.force) if calling.force else None
        sieve = tools.Sieve(calling)
        async for piece in run:
            if forced:
                for one in forced.push(piece["text"]):
                    yield one
                continue
            shown = sieve.push(piece["text"])
            calls = []
            if "reason" in piece:
                left, calls = sieve.end()
                shown += left
            probs = [chat.logprob(model.text, piece["token"], piece["logprob"], piece["top"])] if run.job.sampling["logprobs"] >= 0 and "token" in piece else []
            if shown:
                for one in text.push(shown, probs):
                    yield one
            if "reason" in piece and (text.is_open or not calls):
                for one in text.end():
                    yield one
            for call in calls:
                item = FunctionCall(self, call["name"], call["id"])
                for one in [*item.push(call["arguments"]), *item.end()]:
                    yield one
        if forced:
            for one in forced.end():
                yield one

    def _complete(self, run):
        prompt, written, cached = run.usage()
        self.shown["usage"] = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0}, "output_tokens": written,
                               "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + written}  # fmt: skip
        if self.body.get("trine"):
            self.shown["usage"]["trine"] = run.trine()
        reason = run.choices[0].reason
        self.shown["status"] = {"length": "incomplete", "cancelled": "cancelled"}.get(reason, "completed")
        if reason == "length":
            self.shown["incomplete_details"] = {"reason": "max_output_tokens"}
        self.shown["completed_at"] = time.time()


class Message:
    """A message item as its text comes."""

    def __init__(self, response, model):
        self.response, self.is_open, self.text, self.probs = response, False, "", []
        self.item = {"id": tools.new_id("msg"), "type": "message", "role": "assistant", "status": "in_progress", "content": []}

    def _open(self):
        if not self.is_open:
            self.is_open = True
            self.at = len(self.response.shown["output"])
            self.response.shown["output"].append(self.item)
            yield self.response.event("response.output_item.added", output_index=self.at, item=dict(self.item, content=[]))
            yield self.response.event("response.content_part.added", item_id=self.item["id"], output_index=self.at, content_index=0, part=self._part(""))

    def _part(self, text):
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(self.probs)}

    def push(self, text, probs):
        yield from self._open()
        self.text += text
        self.probs += probs
        yield self.response.event("response.output_text.delta", item_id=self.item["id"], output_index=self.at, content_index=0, delta=text, logprobs=probs)

    def end(self):
        yield from self._open()
        self.item |= {"status": "completed", "content": [self._part(self.text)]}
        place = {"item_id": self.item["id"], "output_index": self.at, "content_index": 0}
        yield self.response.event("response.output_text.done", **place, text=self.text, logprobs=list(self.probs))
        yield self.response.event("response.content_part.done", **place, part=self._part(self.text))
        yield self.response.event("response.output_item.done", output_index=self.at, item=dict(self.item))


class FunctionCall:
    """A call's item as its arguments come."""

    def __init__(self, response, name, call_id=None):
        self.response, self.is_open = response, False
        self.item = {"id": tools.new_id("fc"), "type": "function_call", "call_id": call_id or tools.new_id(), "name": name, "arguments": "", "status": "in_progress"}

    def push(self, text):
        if not self.is_open:
            self.is_open = True
            self.at = len(self.response.shown["output"])
            self.response.shown["output"].append(self.item)
            yield self.response.event("response.output_item.added", output_index=self.at, item=dict(self.item))
        if text:
            self.item["arguments"] += text
            yield self.response.event("response.function_call_arguments.delta", item_id=self.item["id"], output_index=self.at, delta=text)

    def end(self):
        yield from self.push("")
        self.item["status"] = "completed"
        yield self.response.event("response.function_call_arguments.done", item_id=self.item["id"], output_index=self.at, name=self.item["name"], arguments=self.item["arguments"])
        yield self.response.event("response.output_item.done", output_index=self.at, item=dict(self.item))


async def spelled(events):
    async for event in events:
        yield http.sse(event, event["type"])


async def in_background(server, response):
    server.live[response.shown["id"]] = response
    try:
        async for _ in response.run():
            pass
    except asyncio.CancelledError:
        if response.shown.get("cancel"):
            response.shown.pop("cancel")
            response.shown["status"] = "cancelled"
            response.over = True
            response.save()
        raise
    finally:
        response.over = True
        response.changed.set()
        server.live.pop(response.shown["id"], None)


async def follow(response, after):
    """Events of a live response after a number, and those that come."""
    at = after + 1
    while True:
        changed = response.changed
        while at < len(response.events):
            yield response.events[at]
            at += 1
        if response.over:
            return
        await changed.wait()


async def create(server, call):
    body = dict(call.body) | ({"trine": True} if call.wants_trine else {})
    response = Response(server, body, call.key.name, call.key)
    stream = job.flag(body, "stream")
    if job.flag(body, "background"):
        if not response.store:
            raise Wrong("background needs store", 400, "background")
        response.save()
        response.task = server.task(in_background(server, response))
        return http.Events(spelled(follow(response, -1))) if stream else http.Json(response.shown)
    prepared = await response.prepare()  # what is wrong with the request has a status of its own
    if stream:
        return http.Events(await http.started(spelled(response.run(prepared))))

    async def all_of_it():
        async for _ in response.run(prepared):
            pass

    await http.unless_gone(call, all_of_it())
    return http.Json(response.shown)


def stored(server, call):
    found = server.store.get("response", call.path["id"], call.key.name)
    if found is None:
        raise Wrong(f"Response with id '{call.path['id'][:100]}' not found.", 404, "response_id")
    return found


async def show(server, call):
    found = stored(server, call)
    live = server.live.get(call.path["id"])
    if call.query.get("stream") == "true":
        after = call.query.get("starting_after", "-1")
        if not after.lstrip("-").isdecimal():
            raise Wrong("starting_after must be a number", 400, "starting_after")

        async def again():
            for event in found["events"][int(after) + 1 :]:
                yield event

        return http.Events(spelled(follow(live, int(after)) if live else again()))
    return http.Json(live.shown if live else found["response"])


async def drop(server, call):
    stored(server, call)
    server.store.drop("response", call.path["id"], call.key.name)
    return http.Json({"id": call.path["id"], "object": "response", "deleted": True})


async def cancel(server, call):
    found = stored(server, call)
    live = server.live.get(call.path["id"])
    if live is None:
        if not found["response"].get("background"):
            raise Wrong("Only responses with background=true can be cancelled.", 400)
        return http.Json(found["response"])
    live.shown["cancel"] = True
    live.task.cancel()
    await asyncio.gather(live.task, return_exceptions=True)
    return http.Json(live.shown)


async def inputs(server, call):
    items = stored(server, call)["input"]
    items = items if call.query.get("order") == "asc" else items[::-1]
    return http.Json({"object": "list", "data": items, "first_id": items[0]["id"] if items else None, "last_id": items[-1]["id"] if items else None, "has_more": False})


async def count(server, call):
    response = Response(server, call.body, call.key.name, call.key)
    _, made, _ = await response.prepare()
    return http.Json({"object": "response.input_tokens", "input_tokens": len(made.prompt)})


def resume(server):
    """Runs again what was in the background when the process ended."""
    for owner, found in server.store.owners_of_kind("response"):
        if found["response"]["status"] in ("queued", "in_progress"):
            key = next((k for k in server.keys.keys if k.name == owner), None)
            if key is None:
                continue
            response = Response(server, found["body"], owner, key)
            response.shown["id"], response.input = found["response"]["id"], found["input"]
            response.task = server.task(in_background(server, response))


ROWS = [
    ("POST", "/v1/responses", create, "work"), ("POST", "/v1/responses/input_tokens", count, ""), ("GET", "/v1/responses/{id}", show, ""),
    ("DELETE", "/v1/responses/{id}", drop, ""), ("POST", "/v1/responses/{id}/cancel", cancel, ""), ("GET", "/v1/responses/{id}/input_items", inputs, ""),
]  # fmt: skip

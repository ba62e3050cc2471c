"""The two sides of a route: a model in this process, or any OpenAI-compatible server. Both give pieces and then a total."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
import urllib.parse

from trine.serve.errors import Wrong

TIMEOUT = 300.0


class Piece:
    """Of an answer as it comes: `text`, the token's `logprob` where known, and `raw`, the chunk as its server sent it."""

    def __init__(self, text, logprob=None, delta=None, reason=None):
        self.text, self.logprob, self.delta, self.reason = text, logprob, delta or {}, reason


class Total:
    def __init__(self):
        self.prompt = self.written = 0
        self.usd = self.joules = 0.0
        self.ttft = self.seconds = None


class Local:
    def __init__(self, server):
        self.server, self.name = server, server.model.name

    async def pieces(self, body, total):
        from trine.serve import tools
        from trine.serve.wire import chat

        began = time.monotonic()
        asked = {k: v for k, v in body.items() if k not in ("model", "stream", "stream_options")} | {"n": 1, "logprobs": True}
        model, made, calling = await chat.job_of(self.server, asked, self.server.keys.keys[0])
        run = await self.server.desk.submit(made)
        sieve = tools.Sieve(calling)
        async for piece in run:
            total.ttft = total.ttft or time.monotonic() - began
            if calling.force and piece["text"]:
                yield Piece("", piece.get("logprob"), {"tool_calls": [{"index": 0, "function": {"arguments": piece["text"]}}]})
                continue
            text = sieve.push(piece["text"])
            if "reason" in piece:
                left, calls = sieve.end() if not calling.force else ("", [])
                delta = {"tool_calls": chat.call_form(calls, index=True)} if calls else {}
                total.prompt, total.written, _ = run.usage()
                total.usd, total.joules, total.seconds = run.usd(), run.trine()["joules"], time.monotonic() - began
                yield Piece(text + left, None, delta, "tool_calls" if calls else chat.REASONS.get(piece["reason"], "stop"))
            else:
                yield Piece(text, piece.get("logprob"))

    async def embedding(self, text):
        from trine.serve import job

        tokens = await self.server.desk.off_loop(self.server.text.encode, text)
        made = job.Job(tokens[: self.server.model.context - 1] or [0], {"max_tokens": 1}, key="owner", embed=True)
        return [float(v) for v in await (await self.server.desk.submit(made)).embedding()]


class Remote:
    """Reads on a thread, so that nothing here needs an HTTP client of its own."""

    def __init__(self, url, key=None, model=None, usd=(0.0, 0.0)):
        self.url, self.key, self.model, self.usd = url.rstrip("/"), key, model, usd
        self.base = self.url if self.url.endswith("/v1") else self.url + "/v1"
        self.name = model or urllib.parse.urlsplit(self.url).netloc

    def _open(self, method, path, body=None):
        where = urllib.parse.urlsplit(self.base + path)
        kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        connection = kind(where.hostname, where.port, timeout=TIMEOUT)
        heads = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        try:
            connection.request(method, where.path, json.dumps(body).encode() if body is not None else None, heads)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise Wrong(f"{self.base} does not answer: {e}", 503) from None
        if answer.status != 200:
            text = answer.read(4096).decode("utf-8", "replace")
            connection.close()
            raise Wrong(f"{self.base} answered {answer.status}: {text[:300]}", answer.status)
        return connection, answer

    async def pieces(self, body, total):
        asked = {k: v for k, v in body.items() if k not in ("trine", "session")} | {"stream": True, "stream_options": {"include_usage": True}, "n": 1}
        asked = asked | ({"model": self.model} if self.model else {})
        loop, queue, left, began = asyncio.get_running_loop(), asyncio.Queue(), threading.Event(), time.monotonic()

        def tell(item):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def read():
            try:
                connection, answer = self._open("POST", "/chat/completions", asked)
                with contextlib.closing(connection):
                    for line in answer:
                        if left.is_set():
                            return
                        data = line.decode("utf-8", "replace").strip().removeprefix("data: ")
                        if data and data != "[DONE]" and not data.startswith(":"):
                            tell(json.loads(data))
                tell(None)
            except Wrong as e:
                tell(e)
            except (OSError, ValueError, http.client.HTTPException) as e:
                tell(Wrong(f"{self.base} broke off: {e}", 503))

        threading.Thread(target=read, daemon=True, name="upstream").start()
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, Wrong):
                    raise item
                total.ttft = total.ttft or time.monotonic() - began
                if "error" in item:
                    raise Wrong(str(item["error"].get("message")), 503)
                if used := item.get("usage"):
                    self._count(total, used)
                for choice in item.get("choices") or ():
                    delta = choice.get("delta") or {}
                    calls = {"tool_calls": delta["tool_calls"]} if delta.get("tool_calls") else {}
                    if delta.get("content") or calls or choice.get("finish_reason"):
                        yield Piece(delta.get("content") or "", None, calls, choice.get("finish_reason"))
            total.seconds = time.monotonic() - began
        finally:
            left.set()

    def _count(self, total, used):
        total.prompt, total.written = used.get("prompt_tokens") or 0, used.get("completion_tokens") or 0
        took = used.get("trine") or {}
        total.usd = took.get("usd") or (total.prompt * self.usd[0] + total.written * self.usd[1]) / 1e6
        total.joules = took.get("joules") or 0.0

"""What every handler is given and gives back: a checked body, JSON, and event streams that notice when nobody reads.

A client that reads nothing for WRITE_SECONDS is dropped; one that closes its connection ends its request.
"""

import asyncio
import json
import math
import re

from starlette.responses import Response

from trine.serve.errors import Wrong

WRITE_SECONDS = 60.0
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escaped surrogate


class Json(Response):
    media_type = "application/json"

    def render(self, content):
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class Call:
    """A request with its body read: `body` (a dict), `key` (who asks), `path` (named parts of the path), `query`, `headers`."""

    def __init__(self, request, raw):
        self.request, self.raw = request, raw
        self.key = request.scope.get("trine.key")
        self.path, self.query, self.headers = request.path_params, request.query_params, request.headers
        self.body = {}

    async def read_json(self, server):
        self.body = parsed(self.raw) if len(self.raw) < 1 << 18 else await server.desk.off_loop(parsed, self.raw)
        return self

    @property
    def wants_trine(self):
        return self.body.get("trine") is True or self.headers.get("x-trine", "").lower() in ("1", "true")


def refuse(text):
    raise ValueError(f"{text[:40]} is no number of JSON's")


def finite(text):
    value = float(text)
    return value if math.isfinite(value) else refuse(text)


def parsed(raw):
    try:
        value = json.loads(raw, parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise Wrong("the body is nested too deeply", 400, code="invalid_json") from None
    except ValueError as e:  # also text that is no UTF-8, and numbers without end
        raise Wrong(f"the body is no JSON: {e}"[:300], 400, code="invalid_json") from None
    if HALF.search(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Wrong("the body has half a character (a lone surrogate)", 400, code="invalid_json") from None
    if not isinstance(value, dict):
        raise Wrong(f"the body is a {type(value).__name__}; expected an object", 400, code="invalid_json")
    return value


def sse(data, event=None):
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event}\ndata: {text}\n\n" if event else f"data: {text}\n\n"


class Events:
    """A response that streams. `first` has been waited for already, so an error before it has a status of its own."""

    def __init__(self, pieces, spell=None, headers=None, on_end=None):
        self.pieces, self.headers = pieces, headers or {}
        self.spell = spell or (lambda wrong: sse({"error": {"message": wrong.message, "type": wrong.kind, "param": wrong.param, "code": wrong.code}}))
        self.on_end = on_end

    async def __call__(self, scope, receive, send):
        writer = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait({writer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writer, leaving):
                task.cancel()
            await asyncio.gather(writer, leaving, return_exceptions=True)
            close = getattr(self.pieces, "aclose", None)
            if close:
                await close()
            if self.on_end:
                self.on_end()

    async def _write(self, send):
        heads = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"} | self.headers
        await send({"type": "http.response.start", "status": 200, "headers": [(k.encode(), v.encode()) for k, v in heads.items()]})
        try:
            async for piece in self.pieces:
                await asyncio.wait_for(send({"type": "http.response.body", "body": piece.encode(), "more_body": True}), WRITE_SECONDS)
        except Wrong as wrong:  # too late for a status
            await send({"type": "http.response.body", "body": self.spell(wrong).encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def gone(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(call, work):
    """The result of `work`, which is cancelled when the client closes its connection first."""
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(gone(call.request.receive))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Wrong("the client closed its connection", 499)
        return task.result()
    finally:
        for one in (task, leaving):
            one.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def started(pieces, most_s=None):
    """The same stream once its first piece is there, within `most_s`: whatever goes wrong before is an ordinary answer."""
    try:
        first = await asyncio.wait_for(anext(pieces, None), most_s)
    except TimeoutError:
        await pieces.aclose()
        raise Wrong(f"no first token within {1e3 * most_s:.0f} ms", 504) from None

    async def rest():
        try:
            if first is not None:
                yield first
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()

    return rest()

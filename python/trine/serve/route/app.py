"""The route's own address: OpenAI's chat completions and models, health, metrics. Says in headers who answered and why."""

import asyncio
import contextlib
import time

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trine.serve import app as serving
from trine.serve import http, job, tools
from trine.serve.errors import Wrong
from trine.serve.route.policies import POLICIES


class RouteServer:
    """What serve.app's endpoint needs of a server, around a Router."""

    def __init__(self, router, keys, inner=(), limits=None):
        from trine.serve.keys import Keys
        from trine.serve.metrics import Metrics

        self.router, self.inner = router, list(inner)  # models that run in this process
        self.keys, self.metrics = Keys(keys), Metrics()
        self.limits = {"body": 32 << 20} | (limits or {})
        self.ready = False
        self.desk = self

    async def off_loop(self, call, *args):
        return await asyncio.to_thread(call, *args)

    @contextlib.asynccontextmanager
    async def lifespan(self, app=None):
        async with contextlib.AsyncExitStack() as stack:
            for server in self.inner:
                await stack.enter_async_context(server.lifespan())
            self.ready = True
            yield
            self.ready = False
            await asyncio.gather(*self.router.tasks, return_exceptions=True)


async def models(server, call):
    names = ["auto", *(f"router-{name}" for name in POLICIES)]
    return http.Json({"object": "list", "data": [{"id": n, "object": "model", "created": 0, "owned_by": "trine"} for n in names]})


def heads(row):
    safe = "".join(c if " " <= c < "\x7f" else "?" for c in row["reason"] or "")
    return {"x-trine-route": row["side"], "x-trine-route-reason": safe[:200]}


async def create(server, call):
    router, body = server.router, call.body
    if not isinstance(body.get("messages"), list):
        raise Wrong("messages must be a list with at least one message", 400, "messages")
    stream = router.route(body, call.headers.get("x-trine-route"))
    row = await anext(stream)
    name = getattr(router, row["side"]).name
    first = {"id": tools.new_id("chatcmpl"), "created": int(time.time()), "model": name}
    if job.flag(body, "stream"):
        return http.Events(chunks(stream, first, body), headers=heads(row))
    text, calls, reason = "", {}, "stop"
    async for piece in stream:
        text += piece.text
        reason = piece.reason or reason
        for delta in piece.delta.get("tool_calls", ()):
            merge(calls, delta)
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": list(calls.values())} if calls else {})
    side = row.get(row["side"]) or {}
    usage = {"prompt_tokens": side.get("prompt_tokens", 0), "completion_tokens": side.get("tokens", 0), "total_tokens": side.get("prompt_tokens", 0) + side.get("tokens", 0)}
    trine = {"route": row["side"], "reason": row["reason"], "need": row["need"], "usd": side.get("usd")}
    return http.Json(first | {"object": "chat.completion", "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}], "usage": usage, "trine": trine}, headers=heads(row))


def merge(calls, delta):
    """A piece of a call added to what came of it."""
    at = delta.get("index", 0)
    one = calls.setdefault(at, {"id": delta.get("id"), "type": "function", "function": {"name": "", "arguments": ""}})
    function = delta.get("function") or {}
    one["id"] = one["id"] or delta.get("id")
    one["function"]["name"] += function.get("name") or ""
    one["function"]["arguments"] += function.get("arguments") or ""


async def chunks(stream, first, body):
    first = first | {"object": "chat.completion.chunk"}
    yield http.sse(first | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    async for piece in stream:
        delta = dict(piece.delta) | ({"content": piece.text} if piece.text else {})
        if delta or piece.reason:
            yield http.sse(first | {"choices": [{"index": 0, "delta": delta, "finish_reason": piece.reason}]})
    yield http.sse("[DONE]")


async def health(server, call):
    return Response(status_code=200 if server.ready else 503)


async def metrics(server, call):
    router = server.router
    out = ["# HELP trine_route_requests_total Requests by the side that answered.", "# TYPE trine_route_requests_total counter"]
    out += [f'trine_route_requests_total{{side="{side}"}} {router.counts.get(side, 0)}' for side in ("local", "remote")]
    out += ["# HELP trine_route_fallbacks_total Requests whose first side failed.", "# TYPE trine_route_fallbacks_total counter", f"trine_route_fallbacks_total {router.counts.get('fell_back', 0)}"]
    out += ["# HELP trine_route_cost_dollars_total Dollars by side.", "# TYPE trine_route_cost_dollars_total counter"]
    out += [f'trine_route_cost_dollars_total{{side="{side}"}} {usd:.9g}' for side, usd in router.spent.items()]
    return PlainTextResponse("\n".join(out) + "\n", media_type="text/plain; version=0.0.4")


ROWS = [("GET", "/health", health, "open"), ("GET", "/metrics", metrics, ""), ("GET", "/v1/models", models, ""), ("POST", "/v1/chat/completions", create, "work")]


def app_of(server):
    routes = [Route(path, serving.endpoint(server, handler, needs), methods=[method]) for method, path, handler, needs in ROWS]
    return Starlette(routes=routes, lifespan=server.lifespan)

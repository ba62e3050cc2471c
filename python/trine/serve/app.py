"""The ASGI application: a table of paths, and around it keys, limits and errors.

A path is one row: method, path, handler, what it needs. Every path but /health wants a key; those marked `work` count
against quota and budget; those marked `admin` want a key that may.
"""

import asyncio
import logging
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trine.serve import http
from trine.serve.errors import Wrong, body_of
from trine.serve.wire import chat, completions, messages, plain

log = logging.getLogger("trine.serve")
BODY_SECONDS = 60.0
DRAIN_BYTES = 1 << 30


async def metrics_page(server, call):
    return PlainTextResponse(server.metrics.page(server), media_type="text/plain; version=0.0.4")


async def metrics_vllm(server, call):
    return PlainTextResponse(server.metrics.page(server, vllm=True), media_type="text/plain; version=0.0.4")


def rows():
    from trine.serve.wire import batches, conversations, page, responses, sessions

    return [
        ("GET", "/health", plain.health, "open"), ("GET", "/ping", plain.ping, ""), ("GET", "/version", plain.version, ""),
        ("GET", "/metrics", metrics_page, ""), ("GET", "/metrics/vllm", metrics_vllm, ""),
        ("GET", "/v1/models", plain.models, ""), ("GET", "/v1/models/{name:path}", plain.model, ""),
        ("POST", "/v1/chat/completions", chat.create, "work"), ("POST", "/v1/completions", completions.create, "work"),
        ("POST", "/v1/embeddings", plain.embeddings, "work"), ("POST", "/v1/messages", messages.create, "work"),
        ("POST", "/v1/messages/count_tokens", messages.count, ""), ("POST", "/tokenize", plain.tokenize, ""),
        ("POST", "/detokenize", plain.detokenize, ""), ("GET", "/tokenizer_info", plain.tokenizer_info, ""),
        ("POST", "/v1/load_lora_adapter", plain.load_adapter, "admin"), ("POST", "/v1/unload_lora_adapter", plain.drop_adapter, "admin"),
        ("POST", "/start_profile", plain.profile_start, "admin"), ("POST", "/stop_profile", plain.profile_stop, "admin"),
        ("POST", "/invocations", plain.invocations, "work"),
        *responses.ROWS, *conversations.ROWS, *batches.ROWS, *sessions.ROWS, *page.ROWS,
    ]  # fmt: skip


def answer_of(wrong, path):
    return http.Json(body_of(wrong, path), status_code=wrong.status if wrong.status != 499 else 400, headers=wrong.headers)


async def read_body(request, limit):
    """The body, at most `limit` bytes of it. A longer one is read to its end and forgotten, so that the client hears why."""
    declared = request.headers.get("content-length", "0")
    over = declared.isdecimal() and int(declared) > limit
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                over = over or size > limit
                if over:
                    parts.clear()
                    if size > DRAIN_BYTES:
                        break
                else:
                    parts.append(part)
    except TimeoutError:
        raise Wrong(f"the body did not arrive in {BODY_SECONDS:.0f} s", 408, headers={"Connection": "close"}) from None
    if over:
        raise Wrong(f"the body is longer than {limit} bytes, this server's limit", 413, code="request_too_large")
    return b"".join(parts)


def endpoint(server, handler, needs):
    """A handler as Starlette calls it."""

    async def run(request):
        call = http.Call(request, b"")
        if "open" not in needs:
            cookie = request.cookies.get("trine-key") or request.query_params.get("key")
            call.key = server.keys.find(request.headers, cookie)
        if "admin" in needs and not call.key.admin:
            raise Wrong("this key may not do that; it is no admin's", 403)
        if not server.ready and "open" not in needs:
            raise Wrong("the model is still loading", 503, headers={"Retry-After": "1"})
        if request.method in ("POST", "PUT", "PATCH"):
            call.raw = await read_body(request, server.limits["body"])
            if "raw" not in needs and (call.raw or "work" in needs):
                await call.read_json(server)
        if "work" in needs:
            server.keys.admit(call.key)
        return await handler(server, call)

    async def guarded(request):
        began, status = time.monotonic(), 500
        try:
            response = await run(request)
            status = getattr(response, "status_code", 200)
        except Wrong as wrong:
            status = wrong.status
            response = answer_of(wrong, request.url.path)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s", request.method, request.url.path)
            response = answer_of(Wrong("the server failed on this request; its log says how", 500), request.url.path)
        finally:
            server.metrics.answered(status)
            log.debug("%s %s %s %.1f ms", request.method, request.url.path, status, 1e3 * (time.monotonic() - began))
        return response

    return guarded


def app_of(server):
    async def no_path(request, error):
        return answer_of(Wrong(f"no such path: {request.method} {request.url.path}"[:300], 404), request.url.path)

    async def no_method(request, error):
        return answer_of(Wrong(f"{request.method} is not known for {request.url.path}"[:300], 405), request.url.path)

    async def hidden(request: Request) -> Response:
        """What is not there is not there only for those with a key."""
        server.keys.find(request.headers, None)
        raise Wrong(f"no such path: {request.method} {request.url.path}"[:300], 404)

    async def missing(request):
        try:
            return await hidden(request)
        except Wrong as wrong:
            return answer_of(wrong, request.url.path)

    routes = [Route(path, endpoint(server, handler, needs), methods=[method]) for method, path, handler, needs in rows()]
    routes.append(Route("/{path:path}", missing, methods=["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]))
    return Starlette(routes=routes, exception_handlers={404: no_path, 405: no_method}, lifespan=server.lifespan)

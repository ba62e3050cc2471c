"""/v1/sessions: create, append, fork, pin, export and import. Ours; no other server has it."""

import asyncio
import contextlib

from starlette.responses import Response

from trine.serve import http, job
from trine.serve.errors import Wrong


async def create(server, call):
    return http.Json(server.sessions.create(call.key.name, call.body))


async def listed(server, call):
    return http.Json({"object": "list", "data": server.sessions.all(call.key.name)})


async def show(server, call):
    return http.Json(server.sessions.shown(call.path["id"], call.key.name, turns=True))


async def update(server, call):
    return http.Json(server.sessions.update(call.path["id"], call.key.name, call.body))


async def drop(server, call):
    server.sessions.drop(call.path["id"], call.key.name)
    return http.Json({"id": call.path["id"], "object": "session.deleted", "deleted": True})


async def fork(server, call):
    return http.Json(server.sessions.fork(call.path["id"], call.key.name, call.body))


async def export(server, call):
    sessions, number = server.sessions, call.path["id"]
    sessions.shown(number, call.key.name)  # whose is it?
    await server.desk.off_loop(sessions.save, number)
    raw = await server.desk.off_loop(sessions.export, number, call.key.name)
    return Response(raw, media_type="application/x-tar", headers={"content-disposition": f'attachment; filename="{number}.tar"'})


async def take(server, call):
    return http.Json(await server.desk.off_loop(server.sessions.take, call.key.name, call.raw, call.key.admin))


def shown(number, turn, body, trine=None):
    out = {"object": "session.turn", "session": number, "turn": turn, "text": body["text"], "finish_reason": body["reason"],
           "usage": {"prompt_tokens": body["prompt_tokens"], "completion_tokens": body["written"], "cached_tokens": body["cached_tokens"]}}  # fmt: skip
    return out | ({"trine": trine} if trine else {})


async def append(server, call):
    """Records the messages and answers them. A stream's events are {text} and at last the turn."""
    sessions, number, owner = server.sessions, call.path["id"], call.key.name
    turn, run = await sessions.append(number, owner, call.body)
    if job.flag(call.body, "stream"):
        return http.Events(streamed(sessions, number, turn, run, call.wants_trine))
    try:
        await http.unless_gone(call, run.all())
    except BaseException:
        sessions.abandon(number, turn)
        raise
    body = sessions.finish(number, turn, run)
    return http.Json(shown(number, turn, body, run.trine() if call.wants_trine else None))


async def streamed(sessions, number, turn, run, trine):
    done = False
    try:
        async for piece in run:
            if piece["text"] or "token" in piece:
                yield http.sse({"text": piece["text"], "token": piece.get("token")})
        body = sessions.finish(number, turn, run)
        done = True
        yield http.sse(shown(number, turn, body, run.trine() if trine else None))
        yield http.sse("[DONE]")
    finally:
        if not done:
            with contextlib.suppress(Wrong):
                sessions.abandon(number, turn)


async def wait(server, call):
    """Until no turn is running: after a restart, until the interrupted one is complete."""
    sessions, number = server.sessions, call.path["id"]
    for _ in range(1200):
        row = sessions.shown(number, call.key.name, turns=True)
        if not row["running"]:
            return http.Json(row)
        await asyncio.sleep(0.05)
    raise Wrong("a turn is still running", 504)


ROWS = [
    ("POST", "/v1/sessions", create, ""), ("GET", "/v1/sessions", listed, ""), ("POST", "/v1/sessions/import", take, "raw"),
    ("GET", "/v1/sessions/{id}", show, ""), ("POST", "/v1/sessions/{id}", update, ""), ("DELETE", "/v1/sessions/{id}", drop, ""),
    ("POST", "/v1/sessions/{id}/append", append, "work"), ("POST", "/v1/sessions/{id}/fork", fork, ""),
    ("GET", "/v1/sessions/{id}/export", export, ""), ("GET", "/v1/sessions/{id}/wait", wait, ""),
]  # fmt: skip

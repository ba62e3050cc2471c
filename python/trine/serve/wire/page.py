"""The page at `/`: chat, the live batch and KV pages, both clocks, sessions. It shows what the paths below answer."""

import time
from pathlib import Path

from starlette.responses import HTMLResponse

from trine.serve import http

PAGE = Path(__file__).resolve().parent.parent / "page.html"


async def page(server, call):
    """The page; a key in the address becomes a cookie that only this address gets."""
    response = HTMLResponse(PAGE.read_text().replace("{{model}}", escaped(server.model.name)).replace("{{instance}}", escaped(server.instance)))
    response.headers["content-security-policy"] = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
    if key := call.query.get("key"):
        response.set_cookie("trine-key", key, httponly=True, samesite="strict", path="/")
    return response


def escaped(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


async def status(server, call):
    """What the page draws, once a second."""
    metrics = server.metrics
    sessions = server.sessions.all(call.key.name)[:50]
    return http.Json({"version": 1, "time": time.time(), "model": server.model.name, "instance": server.instance, "stats": server.stats(),
                      "tokens": {"prompt": metrics.prompt, "written": metrics.written, "cached": metrics.cached},
                      "joules": metrics.joules, "usd": metrics.usd, "sessions": sessions})  # fmt: skip


ROWS = [("GET", "/", page, ""), ("GET", "/status", status, "")]

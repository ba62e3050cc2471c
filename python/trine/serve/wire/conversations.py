"""/v1/conversations: items in order, that responses read and append to."""

import time

from trine.serve import http, tools
from trine.serve.errors import Wrong
from trine.serve.wire.responses import input_items, messages_of

AT_ONCE = 20


def found(server, call):
    body = server.store.get("conversation", call.path["id"], call.key.name)
    if body is None:
        raise Wrong(f"Conversation with id '{call.path['id'][:100]}' not found.", 404, "conversation_id")
    return body


def new_items(given):
    items = input_items(given)
    if len(items) > AT_ONCE:
        raise Wrong(f"{len(items)} items; at most {AT_ONCE} at once", 400, "items")
    messages_of(items)
    return [item | {"status": "completed"} for item in items]


def metadata_of(body):
    given = body.get("metadata") or {}
    if not isinstance(given, dict):
        raise Wrong("metadata must be an object", 400, "metadata")
    return given


async def create(server, call):
    items = new_items(call.body.get("items"))
    body = {"id": tools.new_id("conv"), "object": "conversation", "created_at": int(time.time()), "metadata": metadata_of(call.body)}
    server.store.put("conversation", body["id"], call.key.name, body)
    if items:
        server.store.append(body["id"], items)
    return http.Json(body)


async def show(server, call):
    return http.Json(found(server, call))


async def update(server, call):
    body = found(server, call) | {"metadata": metadata_of(call.body)}
    server.store.put("conversation", body["id"], call.key.name, body)
    return http.Json(body)


async def drop(server, call):
    found(server, call)
    server.store.drop("conversation", call.path["id"], call.key.name)
    return http.Json({"id": call.path["id"], "object": "conversation.deleted", "deleted": True})


def page(items, more):
    return {"object": "list", "data": items, "first_id": items[0]["id"] if items else None, "last_id": items[-1]["id"] if items else None, "has_more": more}


async def items(server, call):
    found(server, call)
    rows = server.store.items(call.path["id"])
    if call.query.get("order", "desc") == "desc":
        rows = rows[::-1]
    if after := call.query.get("after"):
        at = next((i for i, row in enumerate(rows) if row["id"] == after), None)
        if at is None:
            raise Wrong(f"no item {after[:100]!r} in this conversation", 404, "after")
        rows = rows[at + 1 :]
    limit = call.query.get("limit", "20")
    limit = min(100, max(1, int(limit))) if limit.isdecimal() else 20
    return http.Json(page(rows[:limit], len(rows) > limit))


async def add(server, call):
    found(server, call)
    rows = new_items(call.body.get("items"))
    known = {item["id"] for item in server.store.items(call.path["id"])}
    if twice := [row["id"] for row in rows if row["id"] in known]:
        raise Wrong(f"this conversation has an item {twice[0][:100]!r} already", 400, "items")
    server.store.append(call.path["id"], rows)
    return http.Json(page(rows, False))


async def item(server, call):
    found(server, call)
    for row in server.store.items(call.path["id"]):
        if row["id"] == call.path["item"]:
            return http.Json(row)
    raise Wrong(f"no item {call.path['item'][:100]!r} in this conversation", 404, "item_id")


async def drop_item(server, call):
    body = found(server, call)
    if not server.store.drop_item(call.path["id"], call.path["item"]):
        raise Wrong(f"no item {call.path['item'][:100]!r} in this conversation", 404, "item_id")
    return http.Json(body)


ROWS = [
    ("POST", "/v1/conversations", create, ""), ("GET", "/v1/conversations/{id}", show, ""), ("POST", "/v1/conversations/{id}", update, ""),
    ("DELETE", "/v1/conversations/{id}", drop, ""), ("GET", "/v1/conversations/{id}/items", items, ""), ("POST", "/v1/conversations/{id}/items", add, ""),
    ("GET", "/v1/conversations/{id}/items/{item}", item, ""), ("DELETE", "/v1/conversations/{id}/items/{item}", drop_item, ""),
]  # fmt: skip

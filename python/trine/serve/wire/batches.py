"""/v1/files and /v1/batches: a file of requests, answered in the background, line by line, each exactly once.

A line's answer is in the store before it counts as done; after a restart a batch goes on with the lines that have none.
"""

import asyncio
import io
import json
import os
import time

from starlette.responses import Response

from trine.serve import http, tools
from trine.serve.errors import Wrong, openai
from trine.serve.wire import chat, completions, messages

AT_ONCE = 16
LINES = 50_000
ANSWERS = {"/v1/chat/completions": chat.answer, "/v1/completions": completions.answer, "/v1/messages": messages.answer}
PURPOSES = ("batch", "batch_output", "assistants", "fine-tune", "user_data", "evals", "vision")


def folder(server):
    path = server.store.folder / "files"
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_file(server, owner, name, purpose, data):
    number = tools.new_id("file")
    new = folder(server) / f".{number}"
    with open(new, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, folder(server) / number)
    row = {"id": number, "object": "file", "bytes": len(data), "created_at": int(time.time()), "filename": name[:256], "purpose": purpose, "status": "processed", "expires_at": None}
    server.store.put("file", number, owner, row)
    return row


async def upload(server, call):
    from python_multipart import parse_form
    from python_multipart.exceptions import FormParserError

    fields, files = {}, {}

    def on_field(field):
        fields[(field.field_name or b"").decode("utf-8", "replace")] = (field.value or b"").decode("utf-8", "replace")

    def on_file(file):
        file.file_object.seek(0)
        files[(file.field_name or b"").decode("utf-8", "replace")] = ((file.file_name or b"upload").decode("utf-8", "replace"), file.file_object.read())

    heads = {"Content-Type": call.headers.get("content-type", "").encode(), "Content-Length": str(len(call.raw)).encode()}
    try:
        parse_form(heads, io.BytesIO(call.raw), on_field, on_file)
    except (FormParserError, ValueError, KeyError) as e:
        raise Wrong(f"the upload is no multipart form: {e}", 400, "file") from None
    if "file" not in files or fields.get("purpose") not in PURPOSES:
        raise Wrong(f"file and purpose are required; purpose is one of {', '.join(PURPOSES)}", 400, "purpose")
    name, data = files["file"]
    return http.Json(write_file(server, call.key.name, os.path.basename(name) or "upload", fields["purpose"], data))


def the(server, call, kind, what):
    body = server.store.get(kind, call.path["id"], call.key.name)
    if body is None:
        raise Wrong(f"No such {what}: {call.path['id'][:100]}", 404, "id")
    return body


async def files(server, call):
    return http.Json({"object": "list", "data": server.store.of_kind("file", call.key.name), "has_more": False})


async def file(server, call):
    return http.Json(the(server, call, "file", "File object"))


async def content(server, call):
    return Response((folder(server) / the(server, call, "file", "File object")["id"]).read_bytes(), media_type="application/octet-stream")


async def drop_file(server, call):
    row = the(server, call, "file", "File object")
    server.store.drop("file", row["id"], call.key.name)
    (folder(server) / row["id"]).unlink(missing_ok=True)
    return http.Json({"id": row["id"], "object": "file", "deleted": True})


def lines_of(raw, endpoint):
    """[(custom_id, body)]; what is wrong names its line."""
    out, seen = [], set()
    for at, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        row = http.parsed(line)
        number, body = row.get("custom_id"), row.get("body")
        if not isinstance(number, str) or not isinstance(body, dict) or row.get("url") != endpoint:
            raise Wrong(f"line {at}: expected {{custom_id, method: POST, url: {endpoint}, body}}", 400, "input_file_id", "invalid_line")
        if number in seen:
            raise Wrong(f"line {at}: custom_id {number!r} was used before", 400, "input_file_id", "duplicate_custom_id")
        seen.add(number)
        out.append((number, body))
    if not 0 < len(out) <= LINES:
        raise Wrong(f"the file has {len(out)} requests; expected 1 to {LINES}", 400, "input_file_id")
    return out


async def create(server, call):
    source = server.store.get("file", call.body.get("input_file_id"), call.key.name) if isinstance(call.body.get("input_file_id"), str) else None
    if source is None:
        raise Wrong("input_file_id names no file of yours", 400, "input_file_id")
    endpoint = call.body.get("endpoint")
    if endpoint not in ANSWERS:
        raise Wrong(f"endpoint is {endpoint!r}; expected one of {', '.join(ANSWERS)}", 400, "endpoint")
    now = int(time.time())
    batch = {"id": tools.new_id("batch"), "object": "batch", "endpoint": endpoint, "errors": None, "input_file_id": source["id"],
             "completion_window": call.body.get("completion_window") or "24h", "status": "validating", "output_file_id": None, "error_file_id": None,
             "created_at": now, "in_progress_at": None, "expires_at": now + 86400, "finalizing_at": None, "completed_at": None, "failed_at": None,
             "expired_at": None, "cancelling_at": None, "cancelled_at": None, "request_counts": {"total": 0, "completed": 0, "failed": 0},
             "metadata": call.body.get("metadata")}  # fmt: skip
    server.store.put("batch", batch["id"], call.key.name, batch)
    server.task(work(server, batch["id"], call.key.name))
    return http.Json(batch)


async def one_line(server, batch, key, at, number, body):
    try:
        status, answer = 200, await ANSWERS[batch["endpoint"]](server, body | {"stream": False}, key)
    except Wrong as wrong:
        status, answer = wrong.status, openai(wrong)
    row = {"id": tools.new_id("batch_req"), "custom_id": number, "response": {"status_code": status, "request_id": tools.new_id("req"), "body": answer}, "error": None}
    server.store.put_line(batch["id"], at, "ok" if status == 200 else "failed", row)


async def work(server, number, owner):
    """Answers the lines that have no answer yet, then writes the files."""
    store = server.store
    batch = store.get("batch", number, owner)
    key = next((k for k in server.keys.keys if k.name == owner), None)
    try:
        lines = lines_of((folder(server) / batch["input_file_id"]).read_bytes(), batch["endpoint"])
        if key is None:
            raise Wrong(f"the key {owner!r} is no longer known")
    except (Wrong, OSError) as e:
        store.put("batch", number, owner, batch | {"status": "failed", "failed_at": int(time.time()),
                  "errors": {"object": "list", "data": [{"code": getattr(e, "code", None), "message": str(e), "line": None, "param": None}]}})  # fmt: skip
        return
    batch |= {"status": "in_progress", "in_progress_at": batch["in_progress_at"] or int(time.time())}
    batch["request_counts"]["total"] = len(lines)
    store.put("batch", number, owner, batch)
    done, places = store.lines_done(number), asyncio.Semaphore(AT_ONCE)

    async def bounded(at, custom, body):
        async with places:
            if store.get("batch", number, owner)["status"] == "in_progress":
                await one_line(server, batch, key, at, custom, body)

    await asyncio.gather(*(bounded(at, *line) for at, line in enumerate(lines) if at not in done))
    finish(server, number, owner)


def finish(server, number, owner):
    store = server.store
    batch = store.get("batch", number, owner)
    rows = store.lines(number)
    good, bad = [r for _, status, r in rows if status == "ok"], [r for _, status, r in rows if status != "ok"]
    for name, of in (("output_file_id", good), ("error_file_id", bad)):
        if of:
            data = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in of).encode()
            batch[name] = write_file(server, owner, f"{number}_{name[:-8]}.jsonl", "batch_output", data)["id"]
    now, cancelled = int(time.time()), batch["status"] == "cancelling"
    batch |= {"status": "cancelled" if cancelled else "completed", ("cancelled_at" if cancelled else "completed_at"): now, "finalizing_at": now}
    batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
    store.put("batch", number, owner, batch)


def counted(server, batch):
    rows = server.store.read("select status, count(*) from lines where batch = ? group by status", batch["id"])
    counts = dict(rows)
    batch["request_counts"] |= {"completed": counts.get("ok", 0), "failed": counts.get("failed", 0)}
    return batch


async def show(server, call):
    return http.Json(counted(server, the(server, call, "batch", "Batch object")))


async def listed(server, call):
    rows = [counted(server, b) for b in server.store.of_kind("batch", call.key.name)]
    return http.Json({"object": "list", "data": rows, "first_id": rows[0]["id"] if rows else None, "last_id": rows[-1]["id"] if rows else None, "has_more": False})


async def cancel(server, call):
    batch = the(server, call, "batch", "Batch object")
    if batch["status"] in ("validating", "in_progress"):
        batch |= {"status": "cancelling", "cancelling_at": int(time.time())}
        server.store.put("batch", batch["id"], call.key.name, batch)
    return http.Json(batch)


def resume(server):
    for owner, batch in server.store.owners_of_kind("batch"):
        if batch["status"] in ("validating", "in_progress", "cancelling"):
            server.task(work(server, batch["id"], owner) if batch["status"] != "cancelling" else asyncio.to_thread(finish, server, batch["id"], owner))


ROWS = [
    ("POST", "/v1/files", upload, "raw"), ("GET", "/v1/files", files, ""), ("GET", "/v1/files/{id}", file, ""),
    ("GET", "/v1/files/{id}/content", content, ""), ("DELETE", "/v1/files/{id}", drop_file, ""), ("POST", "/v1/batches", create, ""),
    ("GET", "/v1/batches", listed, ""), ("GET", "/v1/batches/{id}", show, ""), ("POST", "/v1/batches/{id}/cancel", cancel, ""),
]  # fmt: skip

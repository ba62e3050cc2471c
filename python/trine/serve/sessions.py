"""Sessions that last: a conversation as the exact tokens the model saw, turn by turn, in SQLite; its KV pages in files.

A turn is recorded before it is computed and again when it is complete. After a kill the unfinished turn is computed again
from its recorded seed, so it gives the tokens it would have given. A fork shares its parent's turns by copying rows.
"""

import array
import asyncio
import contextlib
import hashlib
import io
import json
import re
import secrets
import tarfile
import time

from trine.serve import http, job, template
from trine.serve.errors import Wrong
from trine.serve.tools import new_id

PAGE = re.compile(r"[0-9a-f]{16,128}(\.[a-z0-9]{1,8})?")
QUOTA = ("tokens", "usd", "turns")


def packed(tokens):
    return array.array("i", tokens).tobytes()


def unpacked(blob):
    out = array.array("i")
    out.frombytes(blob or b"")
    return out.tolist()


def checked(given):
    """The fields that a client may set, each of its kind."""
    quota, metadata = given.get("quota") or {}, given.get("metadata") or {}
    if not isinstance(quota, dict) or not all(k in QUOTA and isinstance(v, (int, float)) and v >= 0 for k, v in quota.items()):
        raise Wrong(f"quota is an object of {', '.join(QUOTA)}", 400, "quota")
    if not isinstance(metadata, dict):
        raise Wrong("metadata must be an object", 400, "metadata")
    return {"metadata": metadata, "ttl_s": job.number(given, "ttl_s", 1, 1e9, None), "quota": quota, "instructions": job.text(given, "instructions"),
            "seed": job.number(given, "seed", 0, 2**53, secrets.randbits(48), int)}  # fmt: skip


class Sessions:
    def __init__(self, server):
        self.server, self.store = server, server.store
        self._busy = {}  # session: the lock of its one running turn
        self._restored = set()
        self._writes = set()

    # Rows.
    def _row(self, number, owner):
        rows = self.store.read("select owner, made, used, expires, pinned, body from sessions where id = ?", number)
        if not rows or rows[0][0] != owner or (rows[0][3] is not None and rows[0][3] < time.time()):
            raise Wrong(f"No session {str(number)[:100]!r}.", 404, "session", "session_not_found")
        _, made, used, expires, pinned, body = rows[0]
        return {"id": number, "created_at": made, "used_at": used, "expires_at": expires, "pinned": bool(pinned)} | json.loads(body)

    def turns(self, number):
        rows = self.store.read("select turn, status, body, tokens from turns where session = ? order by turn", number)
        return [{"turn": turn, "status": status, "tokens": unpacked(tokens)} | json.loads(body) for turn, status, body, tokens in rows]

    def shown(self, number, owner, turns=False):
        row, all_turns = self._row(number, owner), self.turns(number)
        row |= {"object": "session", "turns_count": len(all_turns), "tokens": sum(len(t["tokens"]) for t in all_turns),
                "usd": sum(t.get("usd") or 0 for t in all_turns), "running": any(t["status"] == "running" for t in all_turns),
                "model": row.get("model"), "kv_pages": len(row.get("pages") or ())}  # fmt: skip
        row.pop("pages", None)
        if turns:
            row["turns"] = [{k: v for k, v in t.items() if k != "tokens"} | {"tokens_count": len(t["tokens"])} for t in all_turns]
        return row

    def all(self, owner=None):
        found = self.store.read("select id, owner from sessions where expires is null or expires >= ? order by used desc", time.time())
        return [self.shown(number, of) for number, of in found if owner in (None, of)]

    def count(self):
        return self.store.read("select count(*) from sessions")[0][0]

    def kv_bytes(self):
        folder = self._folder()
        return sum(f.stat().st_size for f in folder.iterdir()) if folder.exists() else 0

    def _folder(self):
        return self.store.folder / "kv"

    # Making and changing.
    def create(self, owner, body):
        model, pinned = self.server.model_named(body.get("model")), int(job.flag(body, "pinned"))
        fields = checked(body) | {"model": model.name, "fingerprint": model.fingerprint, "pages": []}
        number, now = new_id("sess"), time.time()
        with self.store.write() as db:
            db.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?)",
                       (number, owner, now, now, now + fields["ttl_s"] if fields["ttl_s"] else None, pinned, json.dumps(fields)))  # fmt: skip
        return self.shown(number, owner)

    def update(self, number, owner, body):
        row = self._row(number, owner)
        fields = self._fields(row)
        if "metadata" in body:
            fields["metadata"] = body["metadata"] if isinstance(body["metadata"], dict) else {}
        if "ttl_s" in body:
            fields["ttl_s"] = job.number(body, "ttl_s", 1, 1e9, None)
        pinned = job.flag(body, "pinned", row["pinned"])
        self._save(number, fields, pinned)
        return self.shown(number, owner)

    def _fields(self, row):
        return {k: v for k, v in row.items() if k not in ("id", "created_at", "used_at", "expires_at", "pinned")}

    def _save(self, number, fields, pinned=None):
        now = time.time()
        expires = now + fields["ttl_s"] if fields.get("ttl_s") and not pinned else None
        with self.store.write() as db:
            db.execute("update sessions set used = ?, expires = ?, body = ?, pinned = coalesce(?, pinned) where id = ?",
                       (now, expires, json.dumps(fields), None if pinned is None else int(pinned), number))  # fmt: skip

    def drop(self, number, owner=None):
        if owner is not None:
            self._row(number, owner)
        with self.store.write() as db:
            db.execute("delete from sessions where id = ?", (number,))
            db.execute("delete from turns where session = ?", (number,))
        self._restored.discard(number)
        with contextlib.suppress(Exception):
            self.server.engine.drop_session(number)
        self._collect()

    def fork(self, number, owner, body):
        row = self._row(number, owner)
        all_turns = [t for t in self.turns(number) if t["status"] == "done"]
        at = job.number(body, "at", 0, len(all_turns), len(all_turns), int)
        new, now = new_id("sess"), time.time()
        fields = self._fields(row) | {"forked_from": number, "forked_at": at}
        if "seed" in body:
            fields["seed"] = job.number(body, "seed", 0, 2**53, fields["seed"], int)
        with self.store.write() as db:
            db.execute("insert into sessions values (?, ?, ?, ?, ?, 0, ?)", (new, owner, now, now, now + fields["ttl_s"] if fields.get("ttl_s") else None, json.dumps(fields)))
            db.execute("insert into turns select ?, turn, status, body, tokens from turns where session = ? and turn < ? and status = 'done'", (new, number, at))
        return self.shown(new, owner)

    def sweep(self):
        for (number,) in self.store.read("select id from sessions where expires < ? and pinned = 0", time.time()):
            if number not in self._busy:
                self.drop(number)

    # Turns.
    def messages(self, row, turns):
        out = [{"role": "system", "content": row["instructions"]}] if row.get("instructions") else []
        for turn in turns:
            out += turn["messages"]
            if turn["status"] == "done" and turn.get("text") is not None:
                out.append({"role": "assistant", "content": turn["text"]})
        return out

    def prompt(self, row, turns, new):
        """(tokens of the history as they were, tokens that this turn adds, whether the history had to be read anew)."""
        text = self.server.text
        history = [t for turn in turns for t in turn["tokens"]]
        before = self.messages(row, turns)
        full = template.render(text, before + new)
        if not turns:
            return [], text.encode(full, add_special=False), False
        base = template.render(text, before, add_generation_prompt=False)
        answer = text.guarded(turns[-1].get("text") or "")
        at = base.rfind(answer)
        if not full.startswith(base) or at < 0:
            return [], text.encode(full, add_special=False), True
        tail = base[at + len(answer) :]
        last = text.special.get(history[-1], "") if history else ""
        if last and tail.startswith(last):
            tail = tail[len(last) :]
        return history, text.encode(tail + full[len(base) :], add_special=False), False

    async def append(self, number, owner, body):
        """Records a turn and gives (its number, its Run); whoever reads the run to its end calls `finish`."""
        row = self._row(number, owner)
        if number in self._busy:
            raise Wrong("a turn of this session is running; wait for it or cancel it", 409, "session", "session_busy")
        turns = self.turns(number)
        self._within(row, turns)
        new = body.get("messages")
        if isinstance(body.get("input"), str):
            new = [{"role": "user", "content": body["input"]}]
        template.prepared(self.server.text, new)
        model = self.server.model_named(row["model"])
        sampling = job.sampling_of(body, model)
        sampling["seed"] = sampling["seed"] if sampling["seed"] is not None else seed_of(row["seed"], len(turns))
        history, added, anew = await self.server.desk.off_loop(self.prompt, row, turns, new)
        asked = job.number(body, "max_tokens", 1, 1 << 31, None, int, ("max_completion_tokens",))
        sampling["max_tokens"] = job.room_for(history + added, asked, model.context)
        turn = {"messages": new, "sampling": sampling, "stops": job.stops_of(body), "prompt_tokens": len(added), "anew": anew}
        self._busy[number] = True
        try:
            with self.store.write() as db:
                if anew:  # the history's tokens are those of this turn now
                    db.execute("update turns set tokens = x'' where session = ?", (number,))
                db.execute("insert into turns values (?, ?, 'running', ?, ?)", (number, len(turns), json.dumps(turn), packed(added)))
            return len(turns), await self._start(number, owner, history + added, turn, model)
        except BaseException:
            self._busy.pop(number, None)
            raise

    def _within(self, row, turns):
        spent = {"tokens": sum(len(t["tokens"]) for t in turns), "usd": sum(t.get("usd") or 0 for t in turns), "turns": len(turns)}
        for name, limit in (row.get("quota") or {}).items():
            if spent[name] >= limit:
                raise Wrong(f"this session's quota of {limit:g} {name} is used up ({spent[name]:g})", 429, "session", "session_quota")

    async def _start(self, number, owner, tokens, turn, model):
        await self.server.desk.off_loop(self.restore, number)
        made = job.Job(tokens, dict(turn["sampling"]), turn["stops"], key=owner, adapter=model.adapter, session=number)
        return await self.server.desk.submit(made)

    def finish(self, number, turn_number, run):
        """The turn is acknowledged once this has returned."""
        choice = run.choices[0]
        turn = self.turns(number)[turn_number]
        body = {k: turn[k] for k in turn if k not in ("turn", "status", "tokens")}
        body |= {"text": choice.text, "reason": choice.reason, "usd": run.usd(), "cached_tokens": run.cached, "written": len(choice.tokens)}
        tokens = turn["tokens"][: body["prompt_tokens"]] + choice.tokens
        with self.store.write() as db:
            db.execute("update turns set status = 'done', body = ?, tokens = ? where session = ? and turn = ?", (json.dumps(body), packed(tokens), number, turn_number))
            db.execute("update sessions set used = ? where id = ?", (time.time(), number))
        self._busy.pop(number, None)
        task = self.server.task(self._write_behind(number))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return body

    def abandon(self, number, turn_number):
        """The client left: the turn is forgotten, the session is as before it."""
        with self.store.write() as db:
            db.execute("delete from turns where session = ? and turn = ? and status = 'running'", (number, turn_number))
        self._busy.pop(number, None)

    def resume(self):
        """Computes again what was running when the process ended."""
        for number, turn_number in self.store.read("select session, turn from turns where status = 'running'"):
            self.server.task(self._again(number, turn_number))

    async def _again(self, number, turn_number):
        owners = self.store.read("select owner from sessions where id = ?", number)
        if not owners:
            return
        self._busy[number] = True
        try:
            row, turns = self._row(number, owners[0][0]), self.turns(number)
            tokens = [t for turn in turns[:turn_number] for t in turn["tokens"]] + turns[turn_number]["tokens"]
            model = self.server.model_named(row["model"])
            run = await self._start(number, owners[0][0], tokens, turns[turn_number], model)
            self.finish(number, turn_number, await run.all())
        except Wrong:
            self.abandon(number, turn_number)
        finally:
            self._busy.pop(number, None)

    # KV pages: written behind, found again by content.
    async def _write_behind(self, number):
        await asyncio.sleep(0.05)
        await self.server.desk.off_loop(self.save, number)

    def save(self, number):
        if not hasattr(self.server.engine, "save_session"):
            return
        try:
            saved = self.server.engine.save_session(number)
        except (RuntimeError, ValueError, KeyError, OSError):
            return  # its pages have been given to others already; the tokens are enough
        rows = self.store.read("select body from sessions where id = ?", number)
        if rows:
            fields = json.loads(rows[0][0]) | {"pages": list(saved["pages"]), "saved_tokens": len(saved["tokens"]), "adapter": saved["adapter"]}
            with self.store.write() as db:
                db.execute("update sessions set body = ? where id = ?", (json.dumps(fields), number))

    def restore(self, number):
        """Brings a session's pages back the first time it is used in this process."""
        if number in self._restored:
            return
        self._restored.add(number)
        rows = self.store.read("select body from sessions where id = ?", number)
        fields = json.loads(rows[0][0]) if rows else {}
        if fields.get("pages") and fields.get("fingerprint") == self.server.model.fingerprint:
            tokens = [t for turn in self.turns(number) if turn["status"] == "done" for t in turn["tokens"]][: fields.get("saved_tokens")]
            with contextlib.suppress(RuntimeError, ValueError, OSError):  # then its tokens are computed again
                self.server.engine.restore_session(number, {"adapter": fields.get("adapter") or "", "tokens": tokens, "pages": fields["pages"]})

    def _collect(self):
        """Deletes pages that no session names."""
        folder = self._folder()
        if not folder.exists():
            return
        named = {p for (body,) in self.store.read("select body from sessions") for p in json.loads(body).get("pages") or ()}
        for file in folder.iterdir():
            if file.name not in named and time.time() - file.stat().st_mtime > 60:
                with contextlib.suppress(OSError):
                    file.unlink()

    # Moving.
    def export(self, number, owner):
        """A tar file: session.json, and the KV pages it names."""
        row = self._row(number, owner)
        turns = [t for t in self.turns(number) if t["status"] == "done"]
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            add(tar, "session.json", json.dumps({"version": 1, "session": row, "turns": turns}).encode())
            for name in row.get("pages") or ():
                if (path := self._folder() / name).exists():
                    add(tar, f"kv/{name}", path.read_bytes())
        return out.getvalue()

    def take(self, owner, raw, trusted=False):
        """A session from an exported file, under a new id."""
        try:
            tar = tarfile.open(fileobj=io.BytesIO(raw), mode="r:")  # not packed: what it holds is no longer than it is
            body = http.parsed(member(tar, "session.json"))
            row, turns = body["session"], body["turns"]
            for turn in turns:
                job.tokens_of(turn["tokens"], self.server.text.size)
                template.prepared(self.server.text, turn["messages"])
                job.text(turn, "text"), job.number(turn, "usd", 0, 1e9)
            pages = [p for p in row.get("pages") or () if isinstance(p, str) and PAGE.fullmatch(p)]  # never a path
            fields = checked(row) | {"saved_tokens": job.number(row, "saved_tokens", 0, 2**31, 0, int), "pages": pages}
            fields |= {name: job.text(row, name) for name in ("fingerprint", "adapter")}
        except (tarfile.TarError, KeyError, ValueError, TypeError, AttributeError, OSError) as e:
            raise Wrong(f"the file is no exported session: {e}", 400) from None
        self._take_pages(tar, fields, trusted)
        fields |= {"model": self.server.model.name, "imported_from": str(row.get("id")), "pages": fields.get("pages") or []}
        number, now = new_id("sess"), time.time()
        with self.store.write() as db:
            db.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?)", (number, owner, now, now, None, int(bool(row.get("pinned"))), json.dumps(fields)))
            for at, turn in enumerate(turns):
                inner = {k: v for k, v in turn.items() if k not in ("turn", "status", "tokens")}
                db.execute("insert into turns values (?, ?, 'done', ?, ?)", (number, at, json.dumps(inner), packed(turn["tokens"])))
        return self.shown(number, owner)

    def _take_pages(self, tar, fields, trusted):
        """Pages are shared by all whose tokens are equal, so only a trusted key brings any; others' tokens are computed again."""
        folder = self._folder()
        if not trusted or fields.get("fingerprint") != self.server.model.fingerprint:
            fields["pages"] = []
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name in fields.get("pages") or ():
            try:
                data = member(tar, f"kv/{name}")
            except (KeyError, ValueError, tarfile.TarError):
                continue
            if not (folder / name).exists():
                new = folder / f"{name}.{secrets.token_hex(4)}"
                new.write_bytes(data)
                new.replace(folder / name)


def seed_of(seed, turn):
    return int.from_bytes(hashlib.sha256(f"{seed}:{turn}".encode()).digest()[:6], "little")


def member(tar, name):
    """A plain file's bytes; one with holes could be of any size."""
    found = tar.getmember(name)
    if not found.isreg() or found.issparse():
        raise ValueError(f"{name} is no plain file")
    return tar.extractfile(found).read()


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))

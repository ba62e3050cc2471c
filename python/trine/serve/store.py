"""What outlives the process: SQLite in WAL mode beside a folder of files. Every method is one transaction.

Documents are JSON by kind and id, owned by a key; a lookup by another key finds nothing. Whatever a method has returned
from survives kill -9.
"""

import contextlib
import json
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

SCHEMA = """
create table if not exists documents (kind text, id text, owner text, made real, expires real, body text, primary key (kind, id));
create index if not exists documents_by_owner on documents (kind, owner, made);
create table if not exists items (parent text, position integer, id text, body text, primary key (parent, position));
create unique index if not exists items_by_id on items (parent, id);
create table if not exists spent (name text primary key, usd real, tokens integer, requests integer);
create table if not exists lines (batch text, line integer, status text, body text, primary key (batch, line));
create table if not exists sessions (id text primary key, owner text, made real, used real, expires real, pinned integer, body text);
create table if not exists turns (session text, turn integer, status text, body text, tokens blob, primary key (session, turn));
"""


class Store:
    def __init__(self, folder):
        """A folder of a user's; none: one that goes with the process."""
        self._gone = None if folder else tempfile.TemporaryDirectory(prefix="trine-serve-")
        self.folder = Path(folder or self._gone.name).expanduser()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db = sqlite3.connect(self.folder / "state.db", check_same_thread=False, isolation_level=None)
        self._lock = threading.RLock()
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.execute("pragma busy_timeout = 5000")
        self._db.executescript(SCHEMA)

    def close(self):
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def write(self):
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield self._db
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise

    def read(self, sql, *values):
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    # Documents.
    def put(self, kind, number, owner, body, expires=None):
        with self.write() as db:
            db.execute("insert into documents values (?, ?, ?, ?, ?, ?) on conflict (kind, id) do update set body = excluded.body, expires = excluded.expires",
                       (kind, number, owner, time.time(), expires, json.dumps(body)))  # fmt: skip

    def get(self, kind, number, owner):
        rows = self.read("select body from documents where kind = ? and id = ? and owner = ?", kind, number, owner)
        return json.loads(rows[0][0]) if rows else None

    def drop(self, kind, number, owner):
        with self.write() as db:
            gone = db.execute("delete from documents where kind = ? and id = ? and owner = ?", (kind, number, owner)).rowcount
            if gone:
                db.execute("delete from items where parent = ?", (number,))
            return bool(gone)

    def of_kind(self, kind, owner=None):
        rows = self.read("select owner, body from documents where kind = ? order by made desc, rowid desc", kind)
        return [json.loads(body) for of, body in rows if owner is None or of == owner]

    def owners_of_kind(self, kind):
        return [(owner, json.loads(body)) for owner, body in self.read("select owner, body from documents where kind = ?", kind)]

    def sweep(self, now=None):
        """Drops what has expired."""
        with self.write() as db:
            db.execute("delete from documents where expires < ?", (now or time.time(),))

    # Items in order under a parent.
    def append(self, parent, items):
        with self.write() as db:
            (last,) = db.execute("select coalesce(max(position), 0) from items where parent = ?", (parent,)).fetchone()
            db.executemany("insert into items values (?, ?, ?, ?)", [(parent, last + 1 + i, item["id"], json.dumps(item)) for i, item in enumerate(items)])

    def items(self, parent):
        return [json.loads(body) for (body,) in self.read("select body from items where parent = ? order by position", parent)]

    def drop_item(self, parent, number):
        with self.write() as db:
            return bool(db.execute("delete from items where parent = ? and id = ?", (parent, number)).rowcount)

    # Money.
    def spent(self, name):
        rows = self.read("select usd, tokens, requests from spent where name = ?", name)
        return rows[0] if rows else (0.0, 0, 0)

    def spend(self, name, usd, tokens, requests):
        with self.write() as db:
            db.execute("insert or replace into spent values (?, ?, ?, ?)", (name, usd, tokens, requests))

    # Lines of a batch.
    def lines_done(self, batch):
        return {line for (line,) in self.read("select line from lines where batch = ?", batch)}

    def put_line(self, batch, line, status, body):
        with self.write() as db:
            db.execute("insert or ignore into lines values (?, ?, ?, ?)", (batch, line, status, json.dumps(body)))

    def lines(self, batch):
        return [(line, status, json.loads(body)) for line, status, body in self.read("select line, status, body from lines where batch = ? order by line", batch)]

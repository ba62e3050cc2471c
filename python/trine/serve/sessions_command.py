"""`trine sessions`: ls, show, fork, export, rm over a server's state folder. The server may run: SQLite keeps them apart."""

import json
import time
import types
from pathlib import Path

from trine.command import OK, USAGE, Stop
from trine.serve import opening
from trine.serve.errors import Wrong
from trine.serve.sessions import Sessions
from trine.serve.store import Store
from trine.text import aligned

WORDS = {"ls": (0, 0), "show": (1, 1), "fork": (1, 1), "export": (1, 1), "rm": (1, 4096)}


def sessions_at(folder):
    if not (folder / "state.db").exists():
        raise Stop(USAGE, f"{folder}: no server's state there (no state.db); `trine serve` makes it, --state names another")
    return Sessions(types.SimpleNamespace(store=Store(folder), engine=None))


def owner_of(sessions, number):
    """Whose it is; a beginning of its id is enough where it is the only one."""
    rows = sessions.store.read("select id, owner from sessions where id like ? || '%'", number.replace("%", ""))
    if len(rows) != 1:
        raise Stop(USAGE, f"{number}: {'no session' if not rows else f'{len(rows)} sessions begin so'}; `trine sessions ls` lists them")
    return rows[0]


def ago(then):
    seconds = max(0, time.time() - then)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def table(rows):
    if not rows:
        return "no sessions"
    head = ["SESSION", "MODEL", "TURNS", "TOKENS", "KV PAGES", "COST", "USED", ""]
    lines = [[r["id"], str(r["model"]), str(r["turns_count"]), f"{r['tokens']:,}", str(r["kv_pages"]), f"${r['usd']:.6f}", ago(r["used_at"]) + " ago",
              " ".join(filter(None, ["pinned" if r["pinned"] else "", "running" if r["running"] else ""]))] for r in rows]  # fmt: skip
    return aligned([head, *lines], right=(2, 3, 4, 5))


def transcript(row):
    out = [f"{row['id']}  {row['model']}  {row['turns_count']} turns, {row['tokens']:,} tokens, ${row['usd']:.6f}"]
    if row.get("forked_from"):
        out.append(f"forked from {row['forked_from']} before turn {row['forked_at']}")
    for turn in row["turns"]:
        out += [f"{turn['turn']:3}  {m['role']}: {m['content']}" for m in turn["messages"]]
        out.append(f"     assistant: {turn.get('text', '…')}   [{turn['status']}]")
    return "\n".join(out)


def run(asked):
    what, *rest = asked.words or ["ls"]
    if what not in WORDS or not WORDS[what][0] <= len(rest) <= WORDS[what][1]:
        raise Stop(USAGE, "expected ls, show ID, fork ID, export ID or rm ID...")
    sessions = sessions_at(opening.state_path(asked.state))
    report = {"version": 1, "report": "sessions"}
    try:
        if what == "ls":
            rows = sessions.all()
            print(json.dumps(report | {"sessions": rows}) if asked.json else table(rows))
            return OK
        found = [owner_of(sessions, number) for number in rest]
        number, owner = found[0]
        if what == "show":
            row = sessions.shown(number, owner, turns=True)
            print(json.dumps(report | {"session": row}) if asked.json else transcript(row))
        elif what == "fork":
            row = sessions.fork(number, owner, {"at": int(asked.at)} if asked.at else {})
            print(json.dumps(report | {"session": row}) if asked.json else row["id"])
        elif what == "export":
            path = Path(asked.output or f"{number}.tar")
            path.write_bytes(sessions.export(number, owner))
            print(json.dumps(report | {"file": str(path), "bytes": path.stat().st_size}) if asked.json else str(path))
        else:
            for one, whose in found:
                sessions.drop(one, whose)
            print(json.dumps(report | {"removed": [n for n, _ in found]}) if asked.json else f"removed {len(found)}")
    except Wrong as e:
        raise Stop(USAGE, e.message) from None
    return OK

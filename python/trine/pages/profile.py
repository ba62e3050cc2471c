"""The page of a profile: what `trine profile view` serves on loopback, or writes as one file.

It asks trine.profile for everything and computes nothing: a call of the page is a call of the reader, packed. The reader
is duck-typed, so that tests can hand in profiles of any size.
"""

import math
import shlex
import struct
from pathlib import Path

import numpy

from trine.pages import perfetto, shell
from trine.pages.server import Bad, Server, serve_until_interrupted

COLUMNS = 512  # of a tile; assets/tiles.js has the same number
TRACKS_MOST = 256  # in one request
NEAR_MOST = 24  # arrows into an event, and out of it
PATH_MOST = 2000
STORED_BYTES = 12 << 20  # of tiles in one file, before base64
ASKED = {"/api/tile", "/api/event", "/api/path", "/api/memory", "/api/find", "/api/trace", "/api/host/tile", "/api/host/event"}  # with a question
KEYS = ("begin_ns", "end_ns", "event", "count")


def packed(window):
    """{track: rows} as bytes: u32 magic, u32 tracks; of each: u32 id, u32 rows, then columns, each 8-byte aligned."""
    parts = [struct.pack("<II", 0x45534C54, len(window))]
    for track, rows in window.items():
        parts.append(struct.pack("<II", track, len(rows)))
        parts += [numpy.ascontiguousarray(rows[key], "<f8").tobytes() for key in KEYS]
        parts += [numpy.ascontiguousarray(rows["name"], "<i4").tobytes(), numpy.ascontiguousarray(rows["busy"], "<f4").tobytes()]
    return b"".join(parts)


def span_of(profile):
    """(begin, end) of everything in it, in ns."""
    info = profile.info
    if info.get("end_ns"):
        begin = int(info.get("begin_ns", 0))
        return begin, max(int(info["end_ns"]), begin + 1)
    begin, end = None, 0
    for rows in profile.window([t["id"] for t in profile.tracks()], 0, 1 << 62, 1).values():
        if len(rows):
            begin = int(rows["begin_ns"].min()) if begin is None else min(begin, int(rows["begin_ns"].min()))
            end = max(end, int(rows["end_ns"].max()))
    return begin or 0, max(end, (begin or 0) + 1)


class Clock:
    """A timeline that is asked for tile by tile: the chip's, or this machine's (Profile.host). `source` has tracks, window and event."""

    def __init__(self, source, begin, end):
        self.source, self.begin, self.end = source, begin, max(end, begin + 1)
        self.levels = max(1, int((self.end - self.begin) / COLUMNS).bit_length() + 2)
        self.tracks = source.tracks()
        self.ids = {t["id"] for t in self.tracks}

    def about(self):
        return {"begin_ns": self.begin, "end_ns": self.end, "levels": self.levels, "stored_levels": 0, "tracks": self.tracks}

    def tile_of(self, level, index, tracks):
        step = (self.end - self.begin) / 2**level
        begin, end = self.begin + index * step, self.begin + (index + 1) * step
        return packed(self.source.window(tracks, int(begin), max(int(end + 0.999), int(begin) + 1), COLUMNS))

    def tile(self, query):
        level = query.whole("level", 0, self.levels - 1)
        index = query.whole("index", 0, 2**level - 1)
        tracks = query.wholes("tracks", TRACKS_MOST)
        if unknown := [t for t in tracks if t not in self.ids]:
            raise Bad(f"found no track {unknown[0]}")
        return self.tile_of(level, index, tracks)

    def located(self, event):
        found = self.source.event(int(event))
        return {k: found.get(k) for k in ("event", "track", "begin_ns", "end_ns", "name")} | {"event": int(event)}

    def event(self, query):
        number = query.whole("id", 0, 2**53)
        try:
            found = self.source.event(number)
        except (IndexError, KeyError, ValueError) as e:
            raise Bad(f"found no event {number}: {e}") from None
        near = {"before": [self.located(e) for e in found.get("depends_on", [])[:NEAR_MOST]], "after": [self.located(e) for e in found.get("dependents", [])[:NEAR_MOST]]}
        return {"event": {**found, "event": number}, "near": near}

    def store(self, out, path, most):
        """Tiles into `out`, from the coarsest level on until they are whole or large enough; how many levels."""
        ids, used = sorted(self.ids), 0
        for level in range(self.levels):
            tiles = {}
            for index in range(2**level):
                tiles[f"{path}?level={level}&index={index}"] = made = self.tile_of(level, index, ids)
                used += len(made)
                if used > most and level:
                    return level
            out |= tiles
            if all(self.whole(level, index, ids) for index in range(2**level)):
                return level + 1
        return self.levels

    def whole(self, level, index, ids):
        """True where a tile shows every event by itself, so that a finer one would say no more."""
        step = (self.end - self.begin) / 2**level
        window = self.source.window(ids, int(self.begin + index * step), int(self.begin + (index + 1) * step) + 1, COLUMNS)
        return all((rows["event"] >= 0).all() for rows in window.values())


class Page:
    """The calls of the page, over one profile and perhaps another to compare it with."""

    def __init__(self, profile, other=None, title=None):
        self.profile, self.other = profile, other
        self.chip = Clock(profile, *span_of(profile))
        host = profile.host() if hasattr(profile, "host") else None
        self.host = Clock(host, host.begin_ns, host.end_ns) if host and host.tracks() else None
        info = profile.info
        command = info.get("command") or ["profile"]
        words = [command] if isinstance(command, str) else [Path(w).name if Path(w).is_absolute() else w for w in command]
        self.title = title or (command if isinstance(command, str) else shlex.join(words))

    def info(self, _=None):
        """What every view needs; the texts of graphs and sources are asked for apart."""
        about = {k: v for k, v in self.profile.info.items() if k not in ("programs", "sources", "exchanges", "waits")}
        about["events"] = about.get("events") or sum(p.get("events", 0) * p.get("runs", 1) for p in self.profile.info.get("programs", []))
        return {"version": 1, "title": self.title, "info": about, **self.chip.about(), "host": self.host.about() if self.host else None,
                "compare": self.other is not None, "perfetto": bool(perfetto.files())}  # fmt: skip

    def names(self, _=None):
        return self.host.source.names() if self.host else self.profile.names()

    def path(self, query):
        begin, end = query.whole("begin", 0, 2**53), query.whole("end", 0, 2**53)
        if end <= begin:
            raise Bad(f"found begin {begin} and end {end}, expected begin before end")
        return [self.chip.located(step["event"]) | {"ns": step["ns"]} for step in self.profile.critical_path(begin, end, PATH_MOST)]

    def find(self, query):
        """The longest event of an operator, for the way from a table to the timeline: {event}, or null where none is kept."""
        from trine.profile import origin

        p, wanted = self.profile, {k: query.text(k, "") for k in ("program", "framework_op", "graph_op", "source", "line")}
        for number, row in p.by_number.items():
            if wanted["program"] and row["name"] != wanted["program"]:
                continue
            insns, events = p.table(number, "insns"), p.table(number, "events")
            here = [at for at in numpy.unique(insns["at"]) if self.is_of(origin.of(p, number, p.names()[at]), wanted)]
            hits = numpy.flatnonzero(numpy.isin(events["insn"], numpy.flatnonzero(numpy.isin(insns["at"], here))))
            runs = numpy.flatnonzero(p.runs["program"] == number)
            if len(hits) and len(runs):
                longest = hits[numpy.argmax((events["end"] - events["begin"])[hits])]
                return {"event": (int(runs[-1]) << 32) | int(longest)}
        return {"event": None}

    @staticmethod
    def is_of(found, wanted):
        return all(not wanted[k] or str(found[k]) == wanted[k] for k in ("framework_op", "graph_op", "source", "line"))

    def texts(self, _=None):
        """Files of the user's source that the profile keeps, by name."""
        return self.profile.info.get("sources", {})

    def calls(self):
        """What the page may ask, by path."""
        p = self.profile
        plain = {"summary": "summary", "operators": "operators", "source": "source", "roofline": "roofline", "advice": "advice", "waits": "waits"}
        out = {f"/api/{name}": lambda _, f=method: getattr(p, f)() for name, method in plain.items() if hasattr(p, method)}
        out |= {"/api/info": self.info, "/api/names": self.names, "/api/tile": self.chip.tile, "/api/event": self.chip.event, "/api/path": self.path, "/api/memory": self.memory,
                "/api/find": self.find, "/api/texts": self.texts}
        if self.host:
            out |= {"/api/host/tile": self.host.tile, "/api/host/event": self.host.event}
        if perfetto.files():
            out["/api/trace"] = lambda _: perfetto.trace(p)
        if self.other is not None:
            from trine import profile

            out["/api/compare"] = lambda _: profile.compare(self.other, p)
        return out

    def memory(self, query):
        kind = query.text("kind")
        if kind not in ("sbuf", "psum", "hbm"):
            raise Bad(f'kind: found "{kind[:20]}", expected sbuf, psum or hbm')
        return {"rows": self.profile.memory(kind), "capacity_bytes": self.capacity(kind)}

    def capacity(self, kind):
        """Of a core; None where the chip's file is not at hand."""
        chip = self.profile.info.get("chip")
        if not chip:
            return None
        from trine import _core

        found = _core.chip(chip)
        sizes = {"sbuf": ("sbuf.bytes_per_partition", "partitions"), "psum": ("psum.bank_bytes", "psum.banks", "partitions")}
        if kind in sizes and all(k in found for k in sizes[kind]):
            return math.prod(found[k] for k in sizes[kind])
        return None

    def stored(self):
        """Everything that one file holds: all numbers, and tiles from the coarsest on until they are whole or large enough."""
        from trine.pages.server import Query

        out = {}
        for path, call in self.calls().items():
            if path not in ASKED:
                out[path] = call(Query(""))
        for kind in ("sbuf", "psum", "hbm"):
            if hasattr(self.profile, "memory"):
                out[f"/api/memory?kind={kind}"] = self.memory(Query(f"kind={kind}"))
        out["/api/info"] |= {"stored_levels": self.chip.store(out, "/api/tile", STORED_BYTES), "perfetto": False}
        if self.host:
            out["/api/info"]["host"] |= {"stored_levels": self.host.store(out, "/api/host/tile", STORED_BYTES // 4)}
        return out


def opened(path, other=None):
    from trine import profile

    return Page(profile.open(path), profile.open(other) if other else None)


def server(page, host="127.0.0.1", port=0, token=None):
    return Server({"/": shell.live(page.title, "profile")}, shell.files() | perfetto.files(), page.calls(), host, port, token)


def serve(path, compare=None, host="127.0.0.1", port=0, browser=False):
    """Opens a profile as a page until Ctrl-C; gives the exit code."""
    return serve_until_interrupted(server(opened(path, compare), host, port), browser)


def write_html(path, out, compare=None):
    """Writes the page as one file that asks nothing of anybody."""
    page = opened(path, compare)
    Path(out).write_text(shell.one_file(page.title, "profile", page.stored()))

"""A profile as Perfetto's own trace, .pftrace: a process for each rank and device, a track for each unit, arrows along
dependencies, memory and semaphores as counters, transfers between host and device as instants."""

from trine.profile import explaining, proto, rows, slices

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
ROOT, MEMORY, TRANSFERS = 1 << 32, 2 << 32, 3 << 32  # where numbers of tracks begin


def write(profile, path, flows=True) -> str:
    """Writes the trace; how much is in it."""
    out = _Trace(profile, path, flows)
    with open(path, "wb") as out.file:
        return out.write()


class _Trace:
    def __init__(self, profile, path, flows):
        self.profile, self.flows, self.names, self.count, self.arrows = profile, flows, profile.names(), 0, 0
        self.interned = {}

    def packet(self, body, ts=None):
        head = proto.number(10, 1) + (proto.number(8, ts) if ts is not None else b"")
        self.file.write(proto.text(1, head + body))

    def write(self):
        self._tracks()
        for track in self.profile.tracks():
            if track["kind"] in ("host", "collective"):
                self._runs(track)
        shown = set()
        for part in slices.parts(self.profile):
            shown.add(part.run)
            self._part(part)
        self._counters()
        self._semaphores(shown)
        self._transfers()
        runs = sum(1 for r in self.profile.runs if r["program"] != rows.NONE)
        rest = f"; events of {runs - len(shown):,} runs left out, each is one slice" if len(shown) < runs else ""
        return f"{self.count:,} slices, {self.arrows:,} arrows{rest}"

    def _tracks(self):
        made = set()
        for t in self.profile.tracks():
            parent = ROOT + (t["rank"] << 12) + t["device"]
            if parent not in made:
                made.add(parent)
                process = proto.number(1, (t["rank"] << 12) + t["device"] + 1) + proto.text(6, f"rank {t['rank']} device {t['device']}")
                self.packet(proto.text(60, proto.number(1, parent) + proto.text(3, process)))
            name = (f"semaphore {t['name']}" if t["kind"] == "semaphore" else t["name"]) + (f" core {t['core']}" if t["core"] else "")
            counter = proto.text(8, b"") if t["kind"] == "semaphore" else b""
            self.packet(proto.text(60, proto.number(1, t["id"] + 1) + proto.number(5, parent) + proto.text(2, name) + counter))

    def _slice(self, track, begin, end, name, more=b""):
        head = proto.number(11, track + 1)
        self.packet(proto.text(11, proto.number(9, BEGIN) + head + proto.text(23, name) + more), begin)
        self.packet(proto.text(11, proto.number(9, END) + head), max(end, begin))
        self.count += 1

    def _runs(self, track):
        lane = 1 if track["kind"] == "collective" else 0
        for r in self.profile.runs:
            if r["rank"] == track["rank"] and r["lane"] == lane:
                note = proto.text(4, proto.text(10, "step") + proto.number(4, int(r["step"])))
                self._slice(track["id"], int(r["begin"]) // 1000, int(r["end"]) // 1000, self.names[r["name"]], note)

    def _part(self, part):
        insns = self.profile.table(part.program, "insns")
        begin, end = part.begin // 1000, part.end // 1000
        base = part.run << 32
        waits = set(part.cause[part.cause >= 0].tolist()) if self.flows else set()
        for i in range(len(begin)):
            more = b""
            if i in waits:
                more += proto.fixed64(47, base + i + 1)
            if self.flows and part.cause[i] >= 0:
                more += proto.fixed64(48, base + int(part.cause[i]) + 1)
                self.arrows += 1
            insn = int(part.insn[i])
            name = self.names[insns[insn]["name"]] if insn < len(insns) else ""
            self._slice(int(part.track[i]), int(begin[i]), int(end[i]), name, self._details(part.program, insn) + more)

    def _details(self, program, insn):
        key = program, insn
        if key not in self.interned:
            row = self.profile.table(program, "insns")[insn]
            place = self.profile.place(program, row)
            pairs = [("instruction", self.names[row["text"]]), ("graph op", place["graph_op"]), ("framework op", place["framework_op"]),
                     ("source", f"{place['source']}:{place['line']}" if place["source"] else "")]  # fmt: skip
            self.interned[key] = b"".join(proto.text(4, proto.text(10, k) + proto.text(6, v)) for k, v in pairs if v)
        return self.interned[key]

    def _counters(self):
        for n, kind in enumerate(rows.SPACES):
            uuid = MEMORY + n
            self.packet(proto.text(60, proto.number(1, uuid) + proto.number(5, ROOT) + proto.text(2, f"{kind.upper()} bytes") + proto.text(8, b"")))
            for at, size, _ in explaining.memory(self.profile, kind):
                self.packet(proto.text(11, proto.number(9, COUNTER) + proto.number(11, uuid) + proto.number(30, size)), int(at))

    def _semaphores(self, shown):
        """Values of each semaphore in the runs whose events are shown."""
        ids = {(t["rank"], t["device"], t["core"], int(t["name"][1:])): t["id"] for t in self.profile.tracks() if t["kind"] == "semaphore"}
        for number in sorted(shown) if ids else ():
            run = self.profile.runs[number]
            for row in self.profile.table(int(run["program"]), "semaphores"):
                track = ids.get((int(run["rank"]), int(run["device"]), int(row["core"]), int(row["semaphore"])))
                if track is not None:
                    value = proto.number(9, COUNTER) + proto.number(11, track + 1) + proto.number(30, int(row["value"]))
                    self.packet(proto.text(11, value), (int(run["begin"]) + int(row["at"])) // 1000)

    def _transfers(self):
        """Between host and device: instants of the chip's clock, since programs do not wait there; how long each took here beside it."""
        made = set()
        for row in self.profile.transfers:
            rank, direction = int(row["rank"]), min(int(row["direction"]), 1)
            uuid = TRANSFERS + 2 * rank + direction
            if uuid not in made:
                made.add(uuid)
                parent = proto.number(5, ROOT + (rank << 12))
                self.packet(proto.text(60, proto.number(1, uuid) + parent + proto.text(2, rows.DIRECTIONS[direction])))
            notes = (("bytes", row["bytes"]), ("ns on this machine", row["host_ns"]), ("step", row["step"]))
            more = b"".join(proto.text(4, proto.text(10, name) + proto.number(4, int(value))) for name, value in notes)
            self.packet(proto.text(11, proto.number(9, INSTANT) + proto.number(11, uuid) + proto.text(23, rows.DIRECTIONS[direction]) + more), int(row["at"]) // 1000)

"""A profile as XSpace, XProf's form (*.xplane.pb): a plane for each device with lines of steps, programs and each unit.

XProf takes op statistics only from planes named as TPUs are; the plane's name follows it, its stats say what chip it is.
"""

import os

from trine.profile import proto, rows, slices


def write(profile, path) -> str:
    data, events = space(profile)
    with open(path, "wb") as f:
        f.write(data)
    return f"{events:,} events ({os.path.getsize(path) / 1e6:.1f} MB)"


def space(profile, begin_ns=0, most=slices.SLICES_MAX):
    """(bytes, number of events)."""
    planes, count = {}, 0
    for t in profile.tracks():
        planes.setdefault((t["rank"], t["device"]), _Plane(profile, t["rank"], t["device"], begin_ns))
    for plane in planes.values():
        plane.runs()
    for part in slices.parts(profile, most):
        run = profile.runs[part.run]
        planes[int(run["rank"]), int(run["device"])].part(part)
    out = b""
    for number, key in enumerate(sorted(planes)):
        body, n = planes[key].message(number)
        out += proto.text(1, body)
        count += n
    return out, count


class _Plane:
    def __init__(self, profile, rank, device, begin_ns):
        self.profile, self.rank, self.device, self.begin_ns = profile, rank, device, begin_ns
        self.names, self.kinds, self.lines, self.count = profile.names(), {}, {}, 0

    def kind(self, name):
        return self.kinds.setdefault(name, len(self.kinds) + 1)

    def add(self, line, name, begin_ps, end_ps):
        event = proto.number(1, self.kind(name)) + proto.number(2, begin_ps) + proto.number(3, max(0, end_ps - begin_ps))
        self.lines.setdefault(line, []).append(event)
        self.count += 1

    def runs(self):
        steps = {}
        for r in self.profile.runs:
            if r["rank"] != self.rank:
                continue
            name = self.names[r["name"]]
            self.add("XLA Modules" if r["lane"] == 0 else "Collectives", name, int(r["begin"]), int(r["end"]))
            if r["step"]:
                at = steps.setdefault(int(r["step"]), [int(r["begin"]), int(r["end"])])
                at[0], at[1] = min(at[0], int(r["begin"])), max(at[1], int(r["end"]))
        for step, (begin, end) in sorted(steps.items()):
            self.add("Steps", str(step), begin, end)

    def part(self, part):
        tracks = {t["id"]: t["name"] for t in self.profile.tracks()}
        insns = self.profile.table(part.program, "insns")
        names = {int(n): self.names[n] for n in set(insns["name"].tolist())}
        for i in range(len(part.begin)):
            if part.track[i] >= 0:
                self.add(tracks[int(part.track[i])], names[int(insns[part.insn[i]]["name"])], int(part.begin[i]), int(part.end[i]))

    def message(self, number):
        info = self.profile.info
        out = proto.number(1, number + 1) + proto.text(2, f"/device:TPU:{number}")
        order = sorted(self.lines, key=lambda n: (n not in ("Steps", "XLA Modules", "Collectives"), n))
        for i, name in enumerate(order):
            line = proto.number(1, i + 1) + proto.text(2, name) + proto.number(3, self.begin_ns)
            out += proto.text(3, line + b"".join(proto.text(4, e) for e in self.lines[name]))
        for name, n in self.kinds.items():
            out += proto.text(4, proto.number(1, n) + proto.text(2, proto.number(1, n) + proto.text(2, name)))
        for n, (name, value) in enumerate((("device_type_string", info["instance"]), ("core_details", f"rank {self.rank} device {self.device} of {info['chip']}"))):
            out += proto.text(5, proto.number(1, n + 1) + proto.text(2, proto.number(1, n + 1) + proto.text(2, name)))
            out += proto.text(6, proto.number(1, n + 1) + proto.text(5, value))
        return out, self.count


__all__ = ["write", "space", "rows"]

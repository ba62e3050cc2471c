"""Time of a compiled function: one program, or several with what the host runs between them, added up."""

from trine import _core


def programs_of(compiled):
    """The programs of its parts, in order; an error where the host runs everything."""
    found = [part["program"] for part in compiled.parts if not part["on_host"]]
    if not found:
        raise ValueError("nothing of it runs on the device: " + "; ".join(notes_of(compiled)))
    return found


def notes_of(compiled):
    """A line for each op that stays on the host, and one for what that moves."""
    lines = [
        f"{h['op']} {h['type']} runs on the host: {h['reason']}" + (f" ({h['where']})" if h["where"] else "")
        for h in compiled.host_placed
    ]
    if lines:
        lines.append(f"{moved_bytes(compiled):,} bytes go between chip and host in {len(compiled.parts)} parts; that time is not counted")
    return lines


def report_of(compiled, instance):
    """The numbers of `_core.time(…).report()`, added up over the parts; what bounds the longest bounds all."""
    return _core.add_reports([_core.time(program, instance).counted for program in programs_of(compiled)]).numbers()


def lines_of(timed):
    """`_core.time(…).lines` of parts that run one after the other."""
    out, begin = [], 0.0
    for part in timed:
        out += [line | {"end_ns": line["end_ns"] + begin} for line in part.lines]
        begin += part.time_fs / 1e6
    return out


def moved_bytes(compiled):
    """What goes between chip and host from part to part."""
    return sum(part["bytes_written"] for part in compiled.parts[:-1])

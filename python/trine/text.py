"""How Python's reports write durations, bytes and tables."""


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.0f} ns"


def byte_count(n):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} B"


def columns(rows, right=()):
    """Rows of cells as lines; cells of the columns in `right` end together."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))).rstrip() for r in rows]


def aligned(rows, right=()):
    return "\n".join(columns(rows, right))

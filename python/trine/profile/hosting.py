"""A profile on this machine's clock: runs, transfers with their bytes, and the gaps in which a rank's host had its devices wait.

On the chip's clock programs lie one after the other, as trine.timed has them; what the host does between them is here. Times are
ns from the first thing that any rank did. Not the chip: a run is as long here as this machine took for it.
"""

import numpy as np

from trine.profile import rows

GAP = "gap"
TRACKS = (("host", "runs"), ("transfer", rows.DIRECTIONS[0]), ("transfer", rows.DIRECTIONS[1]), ("gap", "gaps"))


def run_rows(profile, rank) -> np.ndarray:
    """Numbers of a rank's runs whose time here is known, each once, in order of time: a program of several parts is one run."""
    own = np.flatnonzero((profile.runs["rank"] == rank) & (profile.runs["host_begin_ns"] > 0))
    r = profile.runs[own]
    order = np.lexsort((own, r["host_begin_ns"]))
    own, r = own[order], r[order]
    first = np.ones(len(own), bool)
    same = (r["host_begin_ns"][1:] == r["host_begin_ns"][:-1]) & (r["host_ns"][1:] == r["host_ns"][:-1]) & (r["host_ns"][1:] > 0)
    first[1:] = ~same
    return own[first]


def gaps(begin, end):
    """(begins, ends) of what lies between, of spans in order of their begin."""
    if len(begin) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    until = np.maximum.accumulate(end)[:-1]
    is_gap = begin[1:] > until
    return until[is_gap], begin[1:][is_gap]


def of_rank(profile, rank) -> dict:
    """{gap_ns, gap_median_ns, run_ns, to_device_ns, from_device_ns, to_device_bytes, from_device_bytes}, or nothing where the host's times are not known."""
    runs, moved = profile.runs[run_rows(profile, rank)], transfers_of(profile, rank)
    if len(runs) < 2:
        return {}
    begin, end = _spans(runs, moved)
    a, b = gaps(begin, end)
    out = {"gap_ns": float((b - a).sum()), "gap_median_ns": float(np.median(b - a)) if len(a) else 0.0, "run_ns": float(runs["host_ns"].sum())}
    for n, name in enumerate(("to_device", "from_device")):
        own = moved[moved["direction"] == n]
        out |= {f"{name}_ns": float(own["host_ns"].sum()), f"{name}_bytes": int(own["bytes"].sum()), f"{name}_count": len(own)}
    return out


def transfers_of(profile, rank):
    return profile.transfers[profile.transfers["rank"] == rank]


def _spans(runs, moved):
    begin = np.concatenate([runs["host_begin_ns"], moved["host_begin_ns"]])
    end = begin + np.concatenate([runs["host_ns"], moved["host_ns"]])
    order = np.argsort(begin, kind="stable")
    return begin[order], end[order]


class HostClock:
    """Tracks and windows as a Profile has them, of the host's time. An event is a run's, or a transfer's number past the last run."""

    def __init__(self, profile):
        self.profile = profile
        names = profile.names()
        self._name = {text: len(names) + n for n, text in enumerate((*rows.DIRECTIONS, GAP))}
        begins = np.concatenate([profile.runs["host_begin_ns"], profile.transfers["host_begin_ns"]])
        self.origin = int(begins[begins > 0].min()) if (begins > 0).any() else 0
        self._tracks, self._rows = [], []
        for r in profile.info["ranks"]:
            self._add(r["rank"])
        self.begin_ns, self.end_ns = 0, max([int(t["end_ns"].max()) for t in self._rows if len(t)], default=0)

    def names(self):
        """The profile's, then those of transfers and gaps."""
        return [*self.profile.names(), *rows.DIRECTIONS, GAP]

    def tracks(self):
        return self._tracks

    def _add(self, rank):
        p, at = self.profile, run_rows(self.profile, rank)
        runs = p.runs[at]
        if not len(runs):
            return
        made = [self._table(runs["host_begin_ns"], runs["host_ns"], (at.astype(np.int64) << 32) + rows.NONE, runs["name"])]
        for n, name in enumerate(rows.DIRECTIONS):
            own = np.flatnonzero((p.transfers["rank"] == rank) & (p.transfers["direction"] == n))
            moved = p.transfers[own]
            made.append(self._table(moved["host_begin_ns"], moved["host_ns"], ((own + len(p.runs)).astype(np.int64) << 32) + rows.NONE, self._name[name]))
        a, b = gaps(*_spans(runs, transfers_of(p, rank)))
        ends_with = np.searchsorted(runs["host_begin_ns"], b).clip(0, len(runs) - 1)  # the run that ends it, for who asks what came then
        made.append(self._table(a, b - a, (at[ends_with].astype(np.int64) << 32) + rows.NONE, self._name[GAP]))
        for (kind, name), table in zip(TRACKS, made):
            if len(table):
                self._tracks.append({"id": len(self._rows), "rank": rank, "kind": kind, "name": name})
                self._rows.append(table)

    def _table(self, begin, took, event, name):
        out = np.zeros(len(begin), rows.WINDOW)
        out["begin_ns"], out["end_ns"] = begin - self.origin, begin - self.origin + took
        out["event"], out["count"], out["name"], out["busy"] = event, 1, name, 1
        return out[np.argsort(out["begin_ns"], kind="stable")]

    def window(self, track_ids, begin_ns, end_ns, columns) -> dict:
        """As Profile.window."""
        return {t: _window(self._rows[int(t)], int(begin_ns), int(end_ns), int(columns)) for t in track_ids}

    def event(self, event_id) -> dict:
        """As Profile.event, at the host's times and on the host's track."""
        number = int(event_id) >> 32
        found = self.profile.event(event_id)
        is_run = number < len(self.profile.runs)
        row = self.profile.runs[number] if is_run else self.profile.transfers[number - len(self.profile.runs)]
        begin = int(row["host_begin_ns"]) - self.origin
        name = "runs" if is_run else rows.DIRECTIONS[int(row["direction"])]
        track = next((t["id"] for t in self._tracks if t["rank"] == int(row["rank"]) and t["name"] == name), None)
        return found | {"begin_ns": begin, "end_ns": begin + int(row["host_ns"]), "duration_ns": int(row["host_ns"]), "track": track, "depends_on": [], "dependents": []}


def _window(table, begin, end, columns):
    first = int(np.searchsorted(np.maximum.accumulate(table["end_ns"]), begin)) if len(table) else 0
    shown = table[first : int(np.searchsorted(table["begin_ns"], end))]
    shown = shown[shown["end_ns"] >= begin]
    if len(shown) <= max(1, columns):
        return shown.copy()
    column = (np.maximum(shown["begin_ns"], begin) - begin) * columns // max(1, end - begin)
    at = np.flatnonzero(np.diff(column, prepend=column[0] - 1))
    out = shown[at].copy()
    out["count"] = np.add.reduceat(shown["count"], at)
    out["end_ns"] = np.maximum.reduceat(shown["end_ns"], at)
    worked = np.add.reduceat(shown["end_ns"] - shown["begin_ns"], at)
    out["busy"] = np.minimum(1, worked / np.maximum(1, out["end_ns"] - out["begin_ns"]))
    out["event"] = np.where(out["count"] > 1, -1, out["event"])
    return out

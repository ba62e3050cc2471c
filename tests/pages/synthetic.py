"""A profile of any number of events that takes no memory: event i of a track lies where arithmetic says.

It has the face of trine.profile.open's result, as far as pages use it. Its numbers mean nothing; its sizes do.
"""

import numpy

ROW = numpy.dtype([("begin_ns", "i8"), ("end_ns", "i8"), ("name", "i4"), ("count", "i8"), ("busy", "f4"), ("event", "i8")])
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
SHIFT = 1 << 32  # an event's number is track * SHIFT + its place


class Synthetic:
    def __init__(self, events=20_000_000, ranks=2, queues=8, semaphores=8, span_ns=4_000_000_000):
        self.span, self._tracks = span_ns, []
        for rank in range(ranks):
            kinds = [("engine", e) for e in ENGINES] + [("dma", f"queue {q}") for q in range(queues)]
            kinds += [("semaphore", f"semaphore {s}") for s in range(semaphores)] + [("collective", "ring 0")]
            for kind, name in kinds:
                self._tracks.append({"id": len(self._tracks), "rank": rank, "device": 0, "core": rank, "kind": kind, "name": name})
        self.each = events // len(self._tracks)
        self.period = span_ns / self.each
        self.info = {"version": 1, "command": "python train.py", "instance": "trn1.32xlarge", "created": "2026-11-17T00:00:00Z",
                     "ranks": ranks, "steps": 12, "programs": [], "begin_ns": 0, "end_ns": span_ns, "events": self.each * len(self._tracks)}  # fmt: skip

    def tracks(self):
        return self._tracks

    def names(self):
        return [f"{op} {i}" for i in range(250) for op in ("matmul", "activation", "tensor_copy", "dma_start")]

    def _spot(self, track, i):
        """Begin and end of events, from a hash of their numbers."""
        mixed = (i * 2654435761 + track * 40503) % 1000
        begin = (i * self.period).astype("i8")
        return begin, numpy.maximum(begin + 1, begin + (self.period * (0.2 + 0.75 * mixed / 1000)).astype("i8"))

    def window(self, track_ids, begin_ns, end_ns, columns):
        out = {}
        for track in track_ids:
            first, last = max(0, int(begin_ns / self.period) - 1), min(self.each, int(end_ns / self.period) + 1)
            if last - first <= columns:
                i = numpy.arange(first, last)
                rows = numpy.zeros(len(i), ROW)
                rows["begin_ns"], rows["end_ns"] = self._spot(track, i)
                rows["name"], rows["count"], rows["busy"], rows["event"] = (i * 7 + track) % 1000, 1, 1.0, track * SHIFT + i
            else:
                edges = numpy.linspace(begin_ns, end_ns, columns + 1)
                rows = numpy.zeros(columns, ROW)
                rows["begin_ns"], rows["end_ns"] = edges[:-1], edges[1:]
                rows["count"], rows["event"] = max(1, (last - first) // columns), -1
                rows["name"] = (numpy.arange(columns) + track) % 1000
                rows["busy"] = 0.5 + 0.45 * numpy.sin(edges[:-1] / self.span * 60 + track)
            out[track] = rows
        return out

    def event(self, event):
        track, i = divmod(int(event), SHIFT)
        if not (0 <= track < len(self._tracks) and 0 <= i < self.each):
            raise IndexError(f"no event {event}")
        begin, end = self._spot(track, numpy.array([i]))
        other = (track + 1) % len(self._tracks)
        return {"event": int(event), "track": track, "begin_ns": int(begin[0]), "end_ns": int(end[0]), "name": self.names()[(i * 7 + track) % 1000],
                "engine": self._tracks[track]["name"], "instruction": "tensor_tensor dst=sbuf a=sbuf b=psum", "source": "model.py:42",
                "framework_op": "aten.mm", "graph_op": "dot", "waits": [{"for": "vector", "ns": 12.5}],
                "depends_on": [other * SHIFT + i - 1] if i else [], "dependents": [other * SHIFT + i + 1] if i + 1 < self.each else []}  # fmt: skip

    def critical_path(self, begin_ns, end_ns, most):
        first = int(begin_ns / self.period)
        return [{"event": (k % 5) * SHIFT + first + k, "ns": self.period} for k in range(min(most, 40)) if first + k < self.each]

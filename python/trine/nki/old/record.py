"""Recording for the functional dialect: each call waits until the next one, so that `x[i] = f(…)` can write into x[i].

Two things shrink a call before it is recorded. A mask leaves a box of the tile. And a tile that is written in part, by
a masked load, is worked on in part: what lies outside is nobody's, on the chip it would be computed and never used.
"""

from trine.nki import isa_compute
from trine.nki.emit import operand
from trine.nki.errors import NkiError
from trine.nki.tensor import FREE_DIMS_MAX, Dynamic, NkiTensor, merge_dims, row_strides
from trine.nki.trace import user_frame

# Rows whose operands share their dimensions with dst, so that a part of a tile can be left out.
_EACH = frozenset("""activation activation_reduce activate2 bn_aggr bn_stats dma_copy dropout exponential max8 range_select
  reciprocal scalar_tensor_tensor select_reduce tensor_copy tensor_copy_predicated tensor_reduce tensor_scalar
  tensor_scalar_cumulative tensor_scalar_reduce tensor_tensor tensor_tensor_scan""".split())
# Rows that may be recorded as several, one for each index of a dimension, where an access pattern is too long.
_SPLIT = frozenset("""activation dma_copy memset reciprocal scalar_tensor_tensor tensor_copy tensor_copy_predicated
  tensor_scalar tensor_tensor""".split())
_WRITTEN = ("dst", "reduce_res", "dst_idx")
_READS_DST = frozenset(("tensor_copy_predicated", "nc_stream_shuffle"))
WHOLE = "whole"


class Held:
    """A call that is not recorded yet. `whole` is its destination before anything was cut; box what was left of it."""

    __slots__ = ("row", "operands", "attrs", "engine", "name", "where", "handles", "whole", "box", "recorder")

    def __init__(self, recorder, row, operands, attrs, engine, name, whole, box):
        self.recorder, self.row, self.operands, self.attrs = recorder, row, operands, attrs
        self.engine, self.name, self.whole, self.box = engine, name, whole, box
        self.where = user_frame()
        sources = {s: v for s, v in operands.items() if v is not None and s != "dst"}
        long = row in _SPLIT and any(map(_too_long, sources.values()))
        self.handles = None if long else {s: operand(recorder.tracer, v, s) for s, v in sources.items()}

    def aim(self, target):
        """Writes into target, which has the shape of the whole destination."""
        if self.box is not None:
            target = cut(target, self.box)
        self.operands = self.operands | {"dst": target}
        target.storage.writes += 1

    def record(self):
        try:
            if self.handles is None or (self.row in _SPLIT and _too_long(self.operands.get("dst"))):
                for part in _parts(self.operands):
                    self._emit({s: operand(self.recorder.tracer, v, s) for s, v in part.items() if v is not None})
            else:
                if self.operands.get("dst") is not None:
                    self.handles["dst"] = operand(self.recorder.tracer, self.operands["dst"], "dst")
                self._emit(self.handles)
        except NkiError as e:
            file, line = self.where
            raise NkiError(e.code, e.found, e.expected, e.fix, file=file, line=line, rule=e.rule) from None
        for slot in _WRITTEN:
            if isinstance(self.operands.get(slot), NkiTensor):
                self.recorder.note_write(self.operands[slot])

    def _emit(self, handles):
        self.recorder.tracer.emit(self.row, self.engine, handles, self.attrs, self.name, self.where)


def _too_long(v):
    return isinstance(v, NkiTensor) and v.ndim > FREE_DIMS_MAX and len(merge_dims(v.shape[1:], v.strides[1:])) > FREE_DIMS_MAX


def _parts(operands):
    """The operands once for each index of the first free dimension, again and again until every pattern fits."""
    dst = operands["dst"]
    dim = next((d for d in range(1, dst.ndim) if dst.shape[d] > 1), None)
    if dim is None or not any(map(_too_long, operands.values())):
        yield operands
        return
    for i in range(dst.shape[dim]):
        at = {}
        for slot, v in operands.items():
            if isinstance(v, NkiTensor) and v.ndim == dst.ndim and v.shape[dim] > 1:
                v = cut(v, [(i, i + 1) if d == dim else (0, n) for d, n in enumerate(v.shape)])
            at[slot] = v
        yield from _parts(at)


class Recorder:
    """One per trace: what of every tile is written, zeros that wait, and the mask around the call in hand."""

    def __init__(self, tracer, wrap, results, obeys_addresses=True):
        self.tracer, self.wrap, self.results = tracer, wrap, results
        self.obeys_addresses = obeys_addresses  # addresses that the kernel gives are obeyed
        self.hulls = {}  # storage -> WHOLE, or [first, end) of each dimension that is written
        self.zeros = {}  # PSUM storage -> boxes that are written, the rest being zeros nobody has made yet
        self.cast = set()  # storages whose dtype the kernel named
        self.skipped = set()  # results of calls whose mask left nothing: assigning one changes nothing
        self.left_in_psum = set()  # storages that calls made in PSUM
        self.region = None  # (box, shape) of a mask
        self.loops = []  # Python loops around the call in hand, outermost first
        self.placements, self.placings = {}, {}  # see loops.first_placement
        self.reductions = {}  # nl.loop_reduce: place and iteration -> its tile

    def emit(self, row, operands, attrs, engine, name):
        tracer = self.tracer
        tracer.release()
        if self.zeros:
            self._make_zeros(row, operands)
            tracer.release()
        whole, box = operands.get("dst"), None
        hull = self._hull(row, operands, whole)
        if hull is not None or self.region is not None:
            ranges = {s: self._ranges(v, whole, hull) for s, v in operands.items() if isinstance(v, NkiTensor)}
            operands = operands | {s: cut(operands[s], r) for s, r in ranges.items() if r is not None}
            box = ranges.get("dst")
        tracer.held = Held(self, row, operands, attrs, engine, name, whole, box)
        return tracer.held

    # --- parts of tiles ---

    def part(self, view, region=None):
        """What a mask's region and the written part of its storage leave of a view, or None for all of it."""
        self.tracer.release()
        out = list(region) if region is not None else [(0, n) for n in view.shape]
        for d, (first, end) in enumerate(self.written(view) or ()):
            if max(out[d][0], first) < min(out[d][1], end):
                out[d] = max(out[d][0], first), min(out[d][1], end)
        return None if all(r == (0, n) for r, n in zip(out, view.shape)) else out

    def was_cut(self, whole, box):
        """The call in hand writes only this part of `whole`."""
        self.tracer.held.whole, self.tracer.held.box = whole, box

    def _hull(self, row, operands, dst):
        """The part of dst that its sources have values for, [(first, end)], or None when that is all of it."""
        if row not in _EACH or dst is None:
            return None
        box = None
        for slot, v in operands.items():
            own = slot == "dst" and row not in _READS_DST
            if own or not isinstance(v, NkiTensor) or self.hulls.get(v.storage, WHOLE) is WHOLE:
                continue
            for d, (first, end) in enumerate(self.written(v) or ()):
                if (first or end != v.shape[d]) and first < end and _shared(v, dst, d):
                    box = box or [(0, n) for n in dst.shape]
                    box[d] = max(box[d][0], first), min(box[d][1], end)
        return box if box is None or all(a < b for a, b in box) else None

    def _ranges(self, v, dst, hull):
        """What the mask and the sources leave of an operand, or None for all of it."""
        out = [(0, n) for n in v.shape]
        if self.region is not None and v.ndim <= len(self.region[1]):
            box, full = self.region
            out = [b if n == m else r for r, b, n, m in zip(out, box, v.shape, full)]
        if hull is not None:
            for d, (first, end) in enumerate(hull):
                if d < v.ndim and _shared(v, dst, d):
                    out[d] = max(out[d][0], first), min(out[d][1], end)
        return None if all(r == (0, n) for r, n in zip(out, v.shape)) else out

    def written(self, view):
        """[(first, end)] of each dimension of a view inside its storage's written part; None when all of it is."""
        hull = self.hulls.get(view.storage, WHOLE)
        axes = _axes(view) if hull is not WHOLE else None
        if axes is None:
            return None
        out = []
        for (dim, start, step), n in zip(axes, view.shape):
            low, high = hull[dim] if dim is not None else (0, n)
            first = max(0, -((start - low) // step)) if dim is not None else 0
            end = min(n, -((start - high) // step)) if dim is not None else n
            out.append((first, max(first, end)))
        return out

    def note_write(self, view):
        storage = view.storage
        if not storage.on_chip:
            return
        if storage in self.zeros:
            box = _free_run(view)
            if box is not None:
                self.zeros[storage].append(box)
        hull = self.hulls.get(storage)
        if hull is WHOLE:
            return
        axes = None if view.size == storage.row * storage.shape[0] else _axes(view)
        if axes is None:
            self.hulls[storage] = WHOLE
            return
        loose = any(dim is None and n > 1 for (dim, _, _), n in zip(axes, view.shape))
        box = [(0, n) if loose and d else (s, s + 1) for d, (s, n) in enumerate(zip(_starts(view), storage.shape))]
        for (dim, start, step), n in zip(axes, view.shape):
            if dim is not None and not (loose and dim):  # windows and transposes fill their rows together
                box[dim] = (start, start + step * (n - 1) + 1)
        if hull is not None:
            box = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(box, hull)]
        self.hulls[storage] = WHOLE if all(r == (0, n) for r, n in zip(box, storage.shape)) else box

    # --- zeros in PSUM ---

    def zero_later(self, view):
        """A PSUM tile of zeros: what matmuls add into need not be zeroed first."""
        self.zeros[view.storage] = []

    def _make_zeros(self, row, operands):
        """Zeros that a call reads are made now, where nothing was written over them."""
        for slot, v in operands.items():
            if not isinstance(v, NkiTensor) or v.storage not in self.zeros:
                continue
            run = _free_run(v)
            if slot == "dst" and row not in _READS_DST and run is not None:
                continue
            done = self.zeros.pop(v.storage)
            row_size = v.storage.row
            left = [(0, v.storage.shape[0], 0, row_size)]
            for box in done:
                left = [part for b in left for part in _without(b, box)]
            saved, self.region = self.region, None
            for p0, p1, f0, f1 in left:
                part = NkiTensor(v.storage, (p1 - p0, f1 - f0), (row_size, 1), p0 * row_size + f0, v.storage.dtype)
                isa_compute.memset(part, 0)
            self.region = saved


def cut(view, ranges):
    """The part of a view between first and end of each dimension."""
    dynamic = view.dynamic
    if dynamic is not None and dynamic.kind == "rows":
        index = dynamic.index
        dynamic = Dynamic("rows", cut(index, [ranges[0]] + [(0, n) for n in index.shape[1:]]), dynamic.scale, dynamic.dim)
    made = type(view)(view.storage, tuple(b - a for a, b in ranges), view.strides,
                      view.offset + sum(a * s for (a, _), s in zip(ranges, view.strides)), view.dtype, dynamic)  # fmt: skip
    if getattr(view, "bounds", ()):
        made.bounds = tuple((index.within(ranges), size) for index, size in view.bounds)
    return made


def _shared(v, dst, dim):
    """Does this dimension of an operand run along with dst's?"""
    return v.shape[dim] == dst.shape[dim] if v.ndim == dst.ndim else dim == 0 and v.shape[0] == dst.shape[0]


def _starts(view):
    """Where a view begins in each dimension of its storage."""
    out, rest = [], view.offset
    for stride in row_strides(view.storage.shape):
        out.append(rest // stride)
        rest %= stride
    return out


def _axes(view):
    """(storage's dimension or None, start, step) of each dimension of a view; None for all where nothing corresponds.

    The first is the partition. Windows that overlap have no dimension of their own.
    """
    storage = view.storage
    if view.dtype is not storage.dtype or view.dynamic is not None:
        return None
    strides, starts, out, used = row_strides(storage.shape), _starts(view), [], set()
    beyond = bool(getattr(view, "bounds", ()))
    for n, stride in zip(view.shape, view.strides):
        dim = next((d for d, s in enumerate(strides) if 0 < s <= stride and stride % s == 0), None) if n > 1 else None
        if dim is not None:
            past = starts[dim] + stride // strides[dim] * (n - 1) >= storage.shape[dim]
            dim = None if dim in used or (past and not beyond) else dim
        used.add(dim)
        out.append((dim, starts[dim], stride // strides[dim]) if dim is not None else (None, 0, 1))
    return out


def _free_run(view):
    """(first partition, end, first element, end) of a view without gaps in its partitions, else None."""
    dims = merge_dims(view.shape[1:], view.strides[1:])
    if len(dims) > 1 or (dims and dims[0][0] != 1) or view.dtype is not view.storage.dtype or view.dynamic is not None:
        return None
    partition, first = divmod(view.offset, view.storage.row)
    return partition, partition + view.shape[0], first, first + (dims[0][1] if dims else 1)


def _without(box, hole):
    """The parts of a box outside another."""
    p0, p1, f0, f1 = box
    a, b, c, d = max(p0, hole[0]), min(p1, hole[1]), max(f0, hole[2]), min(f1, hole[3])
    if a >= b or c >= d:
        return [box]
    parts = [(p0, a, f0, f1), (b, p1, f0, f1), (a, b, f0, c), (a, b, d, f1)]
    return [p for p in parts if p[0] < p[1] and p[2] < p[3]]

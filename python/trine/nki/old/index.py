"""Index expressions of the functional dialect: nl.arange, nl.mgrid, their sums, and the masks made by comparing them.

An Index is const + Σ coefs[d]·i[d] over the dimensions of the result, all known while tracing; besides, one element of
a tile may be added to it, which the machine reads when it runs.
"""

from trine.nki.trace import error


def whole(value):
    """value as an int when it is one (NumPy's and par_dim too), else None."""
    index = getattr(type(value), "__index__", None)
    return index(value) if index else None


def joined(a, b):
    """The shape of two index expressions together."""
    out = []
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            raise error("NKI015", f"index expressions of {list(a)} and {list(b)}", "shapes that agree, or 1")
        out.append(max(x, y))
    return tuple(out)


class Index:
    """`shape` has 1 where the value does not vary; `grid` is the shape that nl.mgrid gave all its indices together."""

    __slots__ = ("coefs", "shape", "const", "grid", "dynamic")

    def __init__(self, coefs, shape, const=0, grid=None, dynamic=None):
        self.coefs, self.shape, self.const = tuple(coefs), tuple(shape), const
        self.grid = self.shape if grid is None else grid
        self.dynamic = dynamic  # a tile of one element, or a register

    @property
    def ndim(self):
        return len(self.shape)

    def __repr__(self):
        terms = [f"{c}*i{d}" for d, c in enumerate(self.coefs) if c]
        return " + ".join(terms + ([str(self.const)] if self.const or not terms else []))

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        coefs, shape, at = [], [], 0
        for k in key:
            if k is None:
                coefs.append(0)
                shape.append(1)
            elif isinstance(k, slice) and k == slice(None) and at < self.ndim:
                coefs.append(self.coefs[at])
                shape.append(self.shape[at])
                at += 1
            else:
                raise error("NKI003", f"[{k}] of an index expression", "None or : for each dimension")
        return Index(coefs + list(self.coefs[at:]), shape + list(self.shape[at:]), self.const, None, self.dynamic)

    def padded(self, ndim):
        """With dimensions of size 1 in front."""
        gap = ndim - self.ndim
        if gap <= 0:
            return self
        return Index((0,) * gap + self.coefs, (1,) * gap + self.shape, self.const, (1,) * gap + self.grid, self.dynamic)

    # --- arithmetic ---

    def _plus(self, other, sign):
        number = whole(other)
        if number is not None:
            return Index(self.coefs, self.shape, self.const + sign * number, self.grid, self.dynamic)
        if not isinstance(other, Index):
            return self.moved_by(other) if sign == 1 and getattr(other, "size", 0) == 1 else NotImplemented
        ndim = max(self.ndim, other.ndim)
        a, b = self.padded(ndim), other.padded(ndim)
        if b.dynamic is not None and (a.dynamic is not None or sign < 0):
            raise error("NKI011", "two runtime values in one index, or one subtracted", "one, added")
        return Index([x + sign * y for x, y in zip(a.coefs, b.coefs)], joined(a.shape, b.shape),
                     a.const + sign * b.const, joined(a.grid, b.grid), a.dynamic or b.dynamic)  # fmt: skip

    def moved_by(self, element):
        """This index plus a value that the machine reads from a tile of one element."""
        if self.dynamic is not None:
            raise error("NKI011", "two runtime values in one index", "one")
        return Index(self.coefs, self.shape, self.const, self.grid, element)

    def __add__(self, other):
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1)

    def __neg__(self):
        return self * -1

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        k = whole(other)
        if k is None or self.dynamic is not None:
            raise error("NKI011", f"an index times {other!r}", "a whole number; index expressions are affine")
        return Index([c * k for c in self.coefs], self.shape, self.const * k, self.grid)

    __rmul__ = __mul__

    def _divided(self, other):
        k = whole(other)
        if not k or any(c % k for c in self.coefs):
            raise error("NKI011", f"({self!r}) over {other!r}", "sums and whole multiples; index expressions are affine",
                        "split the index in two: one nl.arange for each part")
        return k

    def __floordiv__(self, other):
        k = self._divided(other)
        return Index([c // k for c in self.coefs], self.shape, self.const // k, self.grid)

    def __mod__(self, other):
        return Index([0] * self.ndim, self.shape, self.const % self._divided(other), self.grid)

    def within(self, ranges):
        """The index over a part of the tile, [(first, end)] of each dimension."""
        gap = len(ranges) - self.ndim
        parts = list(zip(self.coefs, self.shape, ranges[gap:]))
        const = self.const + sum(c * first for c, _, (first, _) in parts)
        return Index(self.coefs, [n if n == 1 else end - first for _, n, (first, end) in parts], const)

    def limits(self):
        """(lowest, highest) value."""
        low = high = self.const
        for c, n in zip(self.coefs, self.shape):
            reach = c * (n - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    # --- comparison ---

    def __lt__(self, other):
        return Mask([other - self - 1])

    def __le__(self, other):
        return Mask([other - self])

    def __gt__(self, other):
        return Mask([self - other - 1])

    def __ge__(self, other):
        return Mask([self - other])

    def __eq__(self, other):
        return Mask([self - other, other - self])

    __hash__ = None


class Mask:
    """All of its index expressions are at least zero."""

    def __init__(self, parts):
        self.parts = [p if isinstance(p, Index) else Index((), (), p) for p in parts]

    def __and__(self, other):
        if isinstance(other, Mask):
            return Mask(self.parts + other.parts)
        return self if other else Mask([Index((), (), -1)])

    __rand__ = __and__

    def __or__(self, other):
        raise error("NKI011", "masks joined by |", "& only: a mask is a box of the tile")

    def __bool__(self):
        lows, highs = zip(*(p.limits() for p in self.parts))
        if min(lows) >= 0 or min(highs) < 0:
            return min(lows) >= 0
        raise error("NKI013", "a mask used as a condition", "a condition that is the same for the whole tile",
                    "join masks with & instead of `and`, and give them to a call as mask=")

    def region(self, shape):
        """[(first, end)] of each dimension where the mask holds, or None when it holds nowhere."""
        box = [[0, n] for n in shape]
        for part in self.parts:
            extra = part.ndim - len(shape)
            if extra > 0 and any(part.coefs[:extra]):
                raise error("NKI015", f"a mask of {part.ndim} dimensions on a tile of {list(shape)}", "as many dimensions")
            part = Index(part.coefs[max(extra, 0) :], part.shape[max(extra, 0) :], part.const).padded(len(shape))
            low, high = Index(part.coefs, shape, part.const).limits()
            if low >= 0:
                continue
            if high < 0:
                return None
            moving = [d for d, (c, n) in enumerate(zip(part.coefs, shape)) if c and n > 1]
            if len(moving) != 1:
                raise error("NKI011", "a mask that cuts the tile along a slope", "a box: bounds on one index each",
                            "nisa.affine_select selects by such a predicate")
            (d,) = moving
            c, k = part.coefs[d], part.const
            if c > 0:
                box[d][0] = max(box[d][0], -(k // c))
            else:
                box[d][1] = min(box[d][1], k // -c + 1)
        return None if any(a >= b for a, b in box) else [tuple(b) for b in box]


def arange(*args):
    """Whole numbers of an interval, to index with: arange(stop), arange(start, stop)."""
    if not args or any(whole(a) is None for a in args):
        raise error("NKI003", f"nl.arange{args}", "whole numbers known while tracing")
    r = range(*(whole(a) for a in args))
    if not len(r):
        raise error("NKI010", f"nl.arange{args}", "at least one number")
    return Index((r.step,), (len(r),), r.start)


class Grid(tuple):
    """The indices of nl.mgrid, also by the names p, x, y, z, w."""

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])


class MGrid:
    """nl.mgrid[0:128, 0:512]: one index expression for each dimension."""

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        lines = [arange(s.start or 0, s.stop, s.step or 1) for s in key]
        grid = tuple(line.shape[0] for line in lines)
        out = []
        for d, line in enumerate(lines):
            coefs, shape = [0] * len(key), [1] * len(key)
            coefs[d], shape[d] = line.coefs[0], line.shape[0]
            out.append(Index(coefs, shape, line.const, grid))
        return Grid(out)


mgrid = MGrid()

"""Index expressions of the functional dialect: nl.arange, nl.mgrid, their sums, and the masks made by comparing them.

An Index is const + Σ coefs[d]·i[d] over the dimensions of the result. Everything is known while tracing.
"""

from trine.nki.trace import error


class Index:
    __slots__ = ("coefs", "shape", "const")

    def __init__(self, coefs, shape, const=0):
        self.coefs, self.shape, self.const = tuple(coefs), tuple(shape), const

    @property
    def ndim(self):
        return len(self.shape)

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
                raise error("NKI003", f"index [{k}] of nl.arange", "None or : for each dimension")
        return Index(coefs + list(self.coefs[at:]), shape + list(self.shape[at:]), self.const)

    def padded(self, ndim):
        gap = ndim - self.ndim
        return Index((0,) * gap + self.coefs, (1,) * gap + self.shape, self.const)

    def _plus(self, other, sign):
        if not isinstance(other, Index):
            number = getattr(type(other), "__index__", None)
            if number is None:
                return NotImplemented
            return Index(self.coefs, self.shape, self.const + sign * number(other))
        ndim = max(self.ndim, other.ndim)
        a, b = self.padded(ndim), other.padded(ndim)
        shape = []
        for x, y in zip(a.shape, b.shape):
            if x != y and 1 not in (x, y):
                raise error("NKI015", f"index expressions of {list(a.shape)} and {list(b.shape)}", "shapes that agree")
            shape.append(max(x, y))
        return Index([x + sign * y for x, y in zip(a.coefs, b.coefs)], shape, a.const + sign * b.const)

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
        number = getattr(type(other), "__index__", None)
        if number is None:
            raise error("NKI011", f"an index times {other!r}", "a whole number; index expressions are affine")
        k = number(other)
        return Index([c * k for c in self.coefs], self.shape, self.const * k)

    __rmul__ = __mul__

    def _no(self, other):
        raise error("NKI011", "division or remainder of an index", "sums and whole multiples; index expressions are affine")

    __floordiv__ = __mod__ = __truediv__ = _no

    def limits(self):
        """(lowest, highest) value."""
        low = high = self.const
        for c, n in zip(self.coefs, self.shape):
            reach = c * (n - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

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

    def region(self, shape):
        """[(first, end)] of each dimension where the mask holds, or None when it holds nowhere."""
        box = [[0, n] for n in shape]
        for part in self.parts:
            part = part.padded(max(part.ndim, len(shape)))
            extents = [max(a, b) for a, b in zip(part.shape, shape)]
            low, high = Index(part.coefs, extents, part.const).limits()
            if low >= 0:
                continue
            if high < 0:
                return None
            moving = [d for d, (c, n) in enumerate(zip(part.coefs, extents)) if c and n > 1]
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
    r = range(*args)
    return Index((r.step,), (len(r),), r.start)


class Grid(tuple):
    """The indices of nl.mgrid, also by the names p, x, y, z, w."""

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])


class _MGrid:
    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        out = []
        for d, s in enumerate(key):
            axis = [None] * len(key)
            axis[d] = slice(None)
            out.append(arange(s.start or 0, s.stop, s.step or 1)[tuple(axis)])
        return Grid(out)


mgrid = _MGrid()

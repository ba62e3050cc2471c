"""The views of NkiTensor beyond slicing. Each returns a new view of the same storage, or says why there is none.

Nothing here knows instructions. A view that no access pattern can express is refused when it is made; one that reaches
outside its tensor, or is empty, when an instruction uses it.
"""

from math import prod

from trine.nki.trace import error


class Views:
    __slots__ = ()

    def _view(self, shape, strides, offset=None, dtype=None, dynamic=None):
        made = self.__class__(self.storage, tuple(shape), tuple(strides), self.offset if offset is None else offset,
                              self.dtype if dtype is None else dtype, self.dynamic if dynamic is None else dynamic)  # fmt: skip
        made.fault = self.fault
        return made

    def _dim(self, dim):
        at = dim + self.ndim if dim < 0 else dim
        if not 0 <= at < self.ndim:
            raise error("NKI010", f"dimension {dim} of {self!r}", f"0 to {self.ndim - 1}")
        return at

    def _pinned(self):
        """Is dimension 0 the partition, which no view may move?"""
        return self.on_chip or (self.dynamic is not None and self.dynamic.kind == "rows")

    def _keep_partition(self, dim, what):
        if dim == 0 and self._pinned():
            raise error("NKI012", f"{what} of the partition dimension of {self!r}", "a free dimension",
                        "move data across partitions with nc_transpose, DMA or nc_stream_shuffle")

    def permute(self, dims):
        dims = tuple(self._dim(d) for d in dims)
        if sorted(dims) != list(range(self.ndim)):
            raise error("NKI003", f"dims {dims}", f"a permutation of {tuple(range(self.ndim))}")
        if dims[0] != 0:
            self._keep_partition(0, "permute")
        return self._view([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def broadcast(self, dim, size):
        dim = self._dim(dim)
        self._keep_partition(dim, "broadcast")
        if self.shape[dim] != 1:
            raise error("NKI015", f"{self.shape[dim]} elements in dimension {dim} of {self!r}", "1, to be repeated")
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._view(shape, strides)

    def expand_dim(self, dim):
        at = dim + self.ndim + 1 if dim < 0 else dim
        if not 0 <= at <= self.ndim:
            raise error("NKI010", f"dimension {dim} for {self!r}", f"0 to {self.ndim}")
        self._keep_partition(at, "a dimension in front")
        return self._view(self.shape[:at] + (1,) + self.shape[at:], self.strides[:at] + (1,) + self.strides[at:])

    def squeeze_dim(self, dim):
        dim = self._dim(dim)
        self._keep_partition(dim, "removal")
        if self.shape[dim] != 1:
            raise error("NKI015", f"{self.shape[dim]} elements in dimension {dim} of {self!r}", "1, to be dropped")
        return self._view(self.shape[:dim] + self.shape[dim + 1 :], self.strides[:dim] + self.strides[dim + 1 :])

    def reshape_dim(self, dim, shape):
        dim = self._dim(dim)
        shape = infer(tuple(shape), self.shape[dim], self)
        if len(shape) != 1:
            self._keep_partition(dim, "a split")
        strides, step = [], self.strides[dim]
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
        return self._view(self.shape[:dim] + shape + self.shape[dim + 1 :],
                          self.strides[:dim] + tuple(strides) + self.strides[dim + 1 :])  # fmt: skip

    def flatten_dims(self, start_dim, end_dim):
        start, end = self._dim(start_dim), self._dim(end_dim)
        self._keep_partition(start, "merging")
        merged = prod(self.shape[start : end + 1])
        return self.reshape(self.shape[:start] + (merged,) + self.shape[end + 1 :])

    def reshape(self, shape):
        shape = infer(tuple(shape), self.size, self)
        if self._pinned() and shape[0] != self.shape[0]:
            raise error("NKI012", f"reshape of {self!r} to {shape}", f"{self.shape[0]} partitions, as before",
                        "move data across partitions by DMA or nc_transpose")
        strides = reshaped_strides(self.shape, self.strides, shape)
        if strides is None:
            raise error("NKI011", f"reshape of {self!r} with strides {self.strides} to {shape}",
                        "dimensions that lie one behind the other", "copy it into a contiguous tile first")
        return self._view(shape, strides)

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        sizes = dict(fixed_sizes or {})
        if len(src_pattern) != self.ndim:
            raise error("NKI003", f"{len(src_pattern)} names for {self!r}", f"{self.ndim}, one per dimension")
        names, split = [], self
        for group, n in zip(reversed(src_pattern), reversed(self.shape)):
            group = (group,) if isinstance(group, str) else tuple(group)
            open_ones = [g for g in group if g not in sizes]
            known = prod(sizes[g] for g in group if g in sizes)
            if len(open_ones) > 1 or n % known or (not open_ones and known != n):
                raise error("NKI015", f"{group} of sizes {[sizes.get(g) for g in group]} for a dimension of {n}",
                            "sizes whose product it is, one of them open")
            if open_ones:
                sizes[open_ones[0]] = n // known
            names[:0] = group
            split = split.reshape_dim(split.ndim - 1 - (len(names) - len(group)), tuple(sizes[g] for g in group))
        groups = [(g,) if isinstance(g, str) else tuple(g) for g in dst_pattern]
        flat = [name for group in groups for name in group]
        if sorted(flat) != sorted(names):
            raise error("NKI003", f"names {flat} after", f"the names before, {names}")
        moved = split.permute([names.index(name) for name in flat])
        return moved.reshape(tuple(prod(sizes[name] for name in group) for group in groups))

    def slice(self, dim, start, end, step=1):
        dim = self._dim(dim)
        return self[(slice(None),) * dim + (slice(start, end, step),)]

    def select(self, dim, index):
        dim = self._dim(dim)
        return self[(slice(None),) * dim + (index,)]

    def vector_select(self, dim, vector_offset):
        if self.on_chip or dim != 0:
            raise error("NKI011", f"vector_select of dimension {dim} of {self!r}", "dimension 0 of a tensor in HBM")
        shape = (vector_offset.shape[0],) + self.shape[1:]
        return self._indirect(self.strides[0], shape, self.strides, self.offset, self.dtype, None, vector_offset)

    def _indirect(self, scale, shape, strides, offset, dtype, scalar_offset, vector_offset):
        from trine.nki.tensor import Dynamic

        if self.dynamic is not None:
            raise error("NKI011", f"a second runtime index on {self!r}", "one per view")
        if vector_offset is not None:
            if self.on_chip:
                raise error("NKI025", f"vector_offset on {self!r}", "a tensor in HBM",
                            "gather inside SBUF with nisa.nc_n_gather or nisa.local_gather")
            return self._view(shape, strides, offset, dtype, Dynamic("rows", vector_offset, scale, 0))
        return self._view(shape, strides, offset, dtype, Dynamic("scalar", scalar_offset, scale, None))

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None):
        from trine.nki.tensor import as_dtype

        new = self.dtype if dtype is None else as_dtype(dtype)
        strides, shape = tuple(int(s) for s, _ in pattern), tuple(int(n) for _, n in pattern)
        base = rescaled(self.offset, self.dtype, new, self) + (offset or 0)
        if self.on_chip:
            row = self.storage.row * self.storage.dtype.bits // new.bits
            if shape[0] > 1 and strides[0] != row:
                raise error("NKI011", f"partition stride {strides[0]} on {self!r}",
                            f"{row}, the elements of one partition of its storage")
            strides = (row,) + strides[1:]
        fault = outside(self, shape, strides, base, new)
        if scalar_offset is None and vector_offset is None:
            return self._faulty(fault, self._view(shape, strides, base, new))
        if scalar_offset is not None and vector_offset is not None:
            raise error("NKI003", "scalar_offset and vector_offset", "one of them")
        scale = rescaled(self.strides[self._dim(indirect_dim)], self.dtype, new, self)
        return self._faulty(fault, self._indirect(scale, shape, strides, base, new, scalar_offset, vector_offset))

    def _faulty(self, fault, made):
        """A pattern written by hand has a fault of its own, or none: it walks the storage, not this view."""
        made.fault = fault
        return made

    def view(self, dtype):
        from trine.nki.tensor import as_dtype

        new = as_dtype(dtype)
        if self.dynamic is not None:
            raise error("NKI011", f"view of {self!r} as {new}", "a view that is not addressed at run time",
                        "view it before it is made indirect")
        if new.bits == self.dtype.bits:
            return self._view(self.shape, self.strides, dtype=new)
        last = self.shape[-1]
        if last > 1 and self.strides[-1] != 1:
            raise error("NKI011", f"stride {self.strides[-1]} in the last dimension of {self!r}", "1, to reinterpret bits")
        if last * self.dtype.bits % new.bits:
            raise error("NKI015", f"{last} elements of {self.dtype.bits} bits in the last dimension",
                        f"a whole number of {new.bits}-bit elements")
        strides = [rescaled(s, self.dtype, new, self) for s in self.strides[:-1]] + [1]
        shape = self.shape[:-1] + (last * self.dtype.bits // new.bits,)
        return self._view(shape, strides, rescaled(self.offset, self.dtype, new, self), new)

    reinterpret_cast = view

    def indirect(self, index, num_elem=None):
        from trine.nki.tensor import Dynamic
        from trine.nki.trace import current

        if "indirect_free_gather" not in current().features:
            raise error("NKI004", f"indirect() on {current().chip_name}", "NeuronCore-v4 or newer",
                        "use nisa.nc_n_gather or nisa.local_gather")
        if not self.on_chip or index.shape[0] != self.shape[0]:
            raise error("NKI015", f"indirect({index!r}) on {self!r}", "an on-chip tensor and an index of as many partitions")
        count = index.size if num_elem is None else num_elem
        row = self.strides[0]
        return self._view((self.shape[0], count), (row, 1), None, None, Dynamic("free", index, self.strides[-1], 1))


def infer(shape, size, tensor):
    """The shape with a -1 filled in; its product must be size."""
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        if shape.count(-1) == 1 and rest and size % rest == 0:
            shape = tuple(size // rest if n == -1 else n for n in shape)
    if prod(shape) != size or min(shape, default=1) < min(size, 1):
        raise error("NKI015", f"shape {shape} for {tensor!r}", f"{size} elements")
    return shape


def reshaped_strides(shape, strides, new_shape):
    """Strides of the same elements in the same order under another shape; None when no strides do it."""
    if 0 in shape:
        return (1,) * len(new_shape)
    dims = [(n, s) for n, s in zip(shape, strides) if n != 1]
    out, at = [], 0
    rest = list(new_shape)
    i = 0
    while i < len(rest):
        if rest[i] == 1:
            out.append(1)
            i += 1
            continue
        if at >= len(dims):
            return None
        have, take = dims[at][0], 1
        j, need = i, rest[i]
        while have != need:
            if have < need:
                take += 1
                if at + take > len(dims):
                    return None
                have *= dims[at + take - 1][0]
            else:
                j += 1
                if j >= len(rest):
                    return None
                need *= rest[j]
        group = dims[at : at + take]
        if any(group[k][1] != group[k + 1][0] * group[k + 1][1] for k in range(take - 1)):
            return None
        step, part = group[-1][1], []
        for n in reversed(rest[i : j + 1]):
            part.insert(0, step)
            step *= n
        out += part
        at, i = at + take, j + 1
    return tuple(out)


def rescaled(elements, old, new, tensor):
    """A distance in elements of another width."""
    if old.bits == new.bits:
        return elements
    bits = elements * old.bits
    if bits % new.bits:
        raise error("NKI011", f"{elements} elements of {old} in {tensor!r}", f"a whole number of {new} elements")
    return bits // new.bits


def outside(tensor, shape, strides, offset, dtype):
    """The error of a pattern written by hand that leaves its storage or has no elements; None where it may be used."""
    storage = tensor.storage
    if min(shape, default=0) < 1:
        return error("NKI010", f"a pattern of {shape} elements of {tensor!r}", "counts of 1 or more")
    total = storage.row * storage.dtype.bits // dtype.bits
    reach = sum(max(0, s * (n - 1)) for n, s in zip(shape, strides))
    low = offset + sum(min(0, s * (n - 1)) for n, s in zip(shape, strides))
    if storage.on_chip:
        total *= storage.shape[0]
    if low < 0 or offset + reach >= total:
        return error("NKI010", f"elements {low} to {offset + reach} of {storage.name or 'a tensor'}, which has {total}",
                     "a pattern inside the tensor")  # fmt: skip
    return None

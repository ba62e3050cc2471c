"""StableHLO text, op by op: what the rows of the emitter write with.

A Value is a name with a shape and a torch dtype; every method adds a line and returns the Value it defines. Shapes
are static. Nothing here knows ATen: broadcasting, promotion and the like are `rules.py`'s and the rows' business.
"""

import math
import struct

import torch

from trine import _core

# torch dtype -> how StableHLO writes it. torch keeps no tensors of elements narrower than a byte.
ELEMENTS = {getattr(torch, r["torch"]): r["stablehlo"] for r in _core.dtypes() if r["torch"] and r["bits"] >= 8}
_SIGNED_ABROAD = {"ui8", "ui16", "ui32", "ui64"}
_BITS = {torch.float64: ("<d", "<Q", 16), torch.float32: ("<f", "<I", 8), torch.float16: ("<e", "<H", 4)}
NARROW = tuple(d for d in ELEMENTS if d.is_floating_point and d.itemsize < 4)


class Unsupported(NotImplementedError):
    """Something that has no row, or that a row does not do; says what was found."""


class Value:
    """A tensor of the program: the name of its line, its dims and dtype."""

    __slots__ = ("name", "dims", "dtype")

    def __init__(self, name, dims, dtype):
        self.name, self.dims, self.dtype = name, tuple(dims), dtype

    @property
    def rank(self):
        return len(self.dims)

    @property
    def size(self):
        return math.prod(self.dims)

    @property
    def type(self):
        return tensor_type(self.dims, self.dtype)


def tensor_type(dims, dtype):
    if dtype not in ELEMENTS:
        raise Unsupported(f"tensors of {dtype} have no form in StableHLO")
    return "tensor<" + "".join(f"{d}x" for d in dims) + ELEMENTS[dtype] + ">"


def is_float(dtype):
    return dtype.is_floating_point


def is_whole(dtype):
    return not dtype.is_floating_point and not dtype.is_complex


def literal(value, dtype):
    """A number as StableHLO writes it; floats by their bits where decimal digits would not say."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype.is_complex:
        part = torch.float32 if dtype is torch.complex64 else torch.float64
        value = complex(value)
        return f"({literal(value.real, part)}, {literal(value.imag, part)})"
    if is_whole(dtype):
        return str(wrapped(int(value), dtype))
    if dtype in (torch.float64, torch.float32):
        pack, unpack, digits = _BITS[dtype]
        if dtype is torch.float32:
            value = float(torch.tensor(value, dtype=torch.float32))
        return f"0x{struct.unpack(unpack, struct.pack(pack, value))[0]:0{digits}X}"
    size = dtype.itemsize
    bits = torch.tensor([value], dtype=torch.float64).to(dtype).view(torch.uint8 if size == 1 else torch.int16).item()
    return f"0x{bits & (1 << 8 * size) - 1:0{2 * size}X}"


def wrapped(value, dtype):
    info = torch.iinfo(dtype)
    return (value - info.min) % (1 << info.bits) + info.min


def ints(values):
    values = list(values)
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def bracketed(values):
    return "[" + ", ".join(map(str, values)) + "]"


class Text:
    """A function under construction: parameters, then lines."""

    def __init__(self):
        self.params, self.lines, self._count, self._constants = [], [], 0, {}
        self.mesh, self.shardings, self.result_shardings = None, {}, []  # (Shardy's text, devices); by parameter; by result
        self.origin, self.origins = None, {}  # what is being written, and by a line's name what it is of; see lines.py

    def parameter(self, dims, dtype, sharding=""):
        value = Value(f"%arg{len(self.params)}", dims, dtype)
        if sharding:
            self.shardings[len(self.params)] = sharding
        self.params.append(value)
        return value

    def new_name(self):
        self._count += 1
        return f"%{self._count}"

    def finish(self, name, results, donated=()):
        """The module. `donated`: pairs (parameter, result) that may share memory."""
        alias = dict(donated)
        params = []
        for i, p in enumerate(self.params):
            attrs = [f"tf.aliasing_output = {alias[i]} : i32"] if i in alias else []
            attrs += [f"sdy.sharding = #sdy.sharding<@mesh, {self.shardings[i]}>"] if i in self.shardings else []
            params.append(f"{p.name}: {p.type}" + (f" {{{', '.join(attrs)}}}" if attrs else ""))
        types = ", ".join(r.type for r in results)
        head = f"func.func public @main({', '.join(params)}) -> ({self._result_types(results)}) {{"
        names = ", ".join(r.name for r in results)
        tail = f'"func.return"({names}) : ({types}) -> ()'
        body = "\n  ".join([head] + self.lines + [tail])
        if not self.mesh:
            return f"module @{name} {{\n  {body}\n  }}\n}}\n"
        mesh, devices = self.mesh
        return f"module @{name} attributes {{mhlo.num_partitions = {devices} : i32}} {{\n  sdy.mesh @mesh = <{mesh}>\n  {body}\n  }}\n}}\n"

    def _result_types(self, results):
        shardings = self.result_shardings or [""] * len(results)
        return ", ".join(r.type + (f" {{sdy.sharding = #sdy.sharding<@mesh, {s}>}}" if s else "") for r, s in zip(results, shardings))

    def op(self, name, inputs, dims, dtype, attrs="", region=""):
        return self.op_many(name, inputs, [(dims, dtype)], attrs, region)[0]

    def op_many(self, name, inputs, results, attrs="", region=""):
        """One line of the generic form. `results`: (dims, dtype) of each."""
        if "." not in name:
            name = "stablehlo." + name
        out = self.new_name()
        if self.origin:
            self.origins[out] = self.origin
        types = [tensor_type(d, t) for d, t in results]
        left = out if len(types) == 1 else f"{out}:{len(types)}"
        right = types[0] if len(types) == 1 else f"({', '.join(types)})"
        self.lines.append(
            f'{left} = "{name}"({", ".join(v.name for v in inputs)})'
            f"{f' <{{{attrs}}}>' if attrs else ''}{f' ({region})' if region else ''}"
            f" : ({', '.join(v.type for v in inputs)}) -> {right}"
        )
        if len(types) == 1:
            return [Value(out, *results[0])]
        return [Value(f"{out}#{i}", d, t) for i, (d, t) in enumerate(results)]

    def block(self, params, body):
        """A region: `body(values)` returns its results. Lines go into the region, not into the function."""
        outer, self.lines = self.lines, []
        constants, self._constants = self._constants, {}
        values = [Value(self.new_name(), d, t) for d, t in params]
        results = body(*values)
        inner = self.lines
        self.lines, self._constants = outer, constants
        types = ", ".join(r.type for r in results)
        inner.append(f'"stablehlo.return"({", ".join(r.name for r in results)}) : ({types}) -> ()')
        head = f"^bb0({', '.join(f'{v.name}: {v.type}' for v in values)}):" if values else ""
        return "{" + "\n    ".join([head] + inner) + "}"

    # constants and repetition

    def constant(self, value, dtype, dims=()):
        key = (literal(value, dtype), dtype)
        if key not in self._constants:
            out = self.new_name()
            kind = tensor_type((), dtype)
            self.lines.append(f'{out} = "stablehlo.constant"() <{{value = dense<{key[0]}> : {kind}}}> : () -> {kind}')
            self._constants[key] = Value(out, (), dtype)
        return self.broadcast_in_dim(self._constants[key], dims, ())

    def array(self, tensor):
        """A tensor's values as a constant of the program."""
        tensor = tensor.detach().cpu().contiguous()
        if tensor.numel() == 0:
            return self.constant(0, tensor.dtype, tuple(tensor.shape))
        kind = tensor_type(tensor.shape, tensor.dtype)
        if tensor.dtype is torch.bool or tensor.numel() == 1:
            data = nested([literal(v, tensor.dtype) for v in tensor.reshape(-1).tolist()], list(tensor.shape))
        else:
            data = '"0x' + tensor.view(torch.uint8).numpy().tobytes().hex().upper() + '"'
        out = self.new_name()
        self.lines.append(f'{out} = "stablehlo.constant"() <{{value = dense<{data}> : {kind}}}> : () -> {kind}')
        return Value(out, tensor.shape, tensor.dtype)

    def iota(self, dims, dim, dtype=torch.int64):
        return self.op("iota", [], dims, dtype, f"iota_dimension = {dim} : i64")

    def broadcast_in_dim(self, x, dims, where):
        dims = tuple(dims)
        if x.dims == dims and tuple(where) == tuple(range(x.rank)):
            return x
        return self.op("broadcast_in_dim", [x], dims, x.dtype, f"broadcast_dimensions = {ints(where)}")

    # movement

    def convert(self, x, dtype):
        return x if x.dtype is dtype else self.op("convert", [x], x.dims, dtype)

    def reshape(self, x, dims):
        return x if x.dims == tuple(dims) else self.op("reshape", [x], tuple(dims), x.dtype)

    def transpose(self, x, order):
        order = tuple(order)
        if order == tuple(range(x.rank)):
            return x
        return self.op("transpose", [x], [x.dims[i] for i in order], x.dtype, f"permutation = {ints(order)}")

    def slice(self, x, starts, limits, steps=None):
        steps = steps or [1] * x.rank
        dims = [max(0, -(-(e - s) // t)) for s, e, t in zip(starts, limits, steps)]
        if tuple(dims) == x.dims:
            return x
        attrs = f"limit_indices = {ints(limits)}, start_indices = {ints(starts)}, strides = {ints(steps)}"
        return self.op("slice", [x], dims, x.dtype, attrs)

    def slice_dim(self, x, dim, start, limit, step=1):
        starts, limits, steps = [0] * x.rank, list(x.dims), [1] * x.rank
        starts[dim], limits[dim], steps[dim] = start, limit, step
        return self.slice(x, starts, limits, steps)

    def concatenate(self, parts, dim):
        if len(parts) == 1:
            return parts[0]
        dims = list(parts[0].dims)
        dims[dim] = sum(p.dims[dim] for p in parts)
        return self.op("concatenate", parts, dims, parts[0].dtype, f"dimension = {dim} : i64")

    def pad(self, x, low, high, inner=None, value=0):
        inner = inner or [0] * x.rank
        if not any(low) and not any(high) and not any(inner):
            return x
        fill = value if isinstance(value, Value) else self.constant(value, x.dtype)
        dims = [l + h + d + max(d - 1, 0) * i for d, l, h, i in zip(x.dims, low, high, inner)]
        attrs = f"edge_padding_high = {ints(high)}, edge_padding_low = {ints(low)}, interior_padding = {ints(inner)}"
        return self.op("pad", [x, fill], dims, x.dtype, attrs)

    def reverse(self, x, dims):
        return self.op("reverse", [x], x.dims, x.dtype, f"dimensions = {ints(dims)}") if dims else x

    # elementwise, on equal shapes and dtypes

    def unary(self, name, x):
        return self.op(name, [x], x.dims, x.dtype)

    def binary(self, name, x, y):
        return self.op(name, [x, y], x.dims, x.dtype)

    def compare(self, direction, x, y):
        attrs = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        return self.op("compare", [x, y], x.dims, torch.bool, attrs)

    def select(self, pred, x, y):
        return self.op("select", [pred, x, y], x.dims, x.dtype)

    # sums and products

    def reduce(self, kind, x, axes, start):
        """Over `axes`, which are dropped; `kind` is an elementwise op, `start` its neutral number."""
        axes = sorted(axes)
        if not axes:
            return x
        dims = [d for i, d in enumerate(x.dims) if i not in axes]
        scalar = ((), x.dtype)
        body = self.block([scalar, scalar], lambda a, c: [self.binary(kind, a, c)])
        return self.op("reduce", [x, self.constant(start, x.dtype)], dims, x.dtype, f"dimensions = {ints(axes)}", body)

    def dot(self, x, y, batch, contract, dtype=None):
        """`batch`, `contract`: pairs of dims of x and y. The result is batch, rest of x, rest of y."""
        xb, yb = [p[0] for p in batch], [p[1] for p in batch]
        xc, yc = [p[0] for p in contract], [p[1] for p in contract]
        dims = [x.dims[i] for i in xb]
        dims += [d for i, d in enumerate(x.dims) if i not in xb + xc]
        dims += [d for i, d in enumerate(y.dims) if i not in yb + yc]
        numbers = (
            f"lhs_batching_dimensions = {bracketed(xb)}, rhs_batching_dimensions = {bracketed(yb)}, "
            f"lhs_contracting_dimensions = {bracketed(xc)}, rhs_contracting_dimensions = {bracketed(yc)}"
        )
        return self.op("dot_general", [x, y], dims, dtype or x.dtype, f"dot_dimension_numbers = #stablehlo.dot<{numbers}>")

    def gather(self, x, index, slices, offset_dims, collapsed, start_map, vector_dim, batching=((), ())):
        """StableHLO's gather with `slices` as slice sizes."""
        offsets = [s for i, s in enumerate(slices) if i not in collapsed and i not in batching[0]]
        rest = iter([d for i, d in enumerate(index.dims) if i != vector_dim])
        offsets = iter(offsets)
        rank = len(offset_dims) + index.rank - (1 if vector_dim < index.rank else 0)
        dims = [next(offsets) if i in offset_dims else next(rest) for i in range(rank)]
        numbers = (
            f"offset_dims = {bracketed(offset_dims)}, collapsed_slice_dims = {bracketed(collapsed)}, "
            f"operand_batching_dims = {bracketed(batching[0])}, start_indices_batching_dims = {bracketed(batching[1])}, "
            f"start_index_map = {bracketed(start_map)}, index_vector_dim = {vector_dim}"
        )
        attrs = f"dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = false, slice_sizes = {ints(slices)}"
        return self.op("gather", [x, index], dims, x.dtype, attrs)

    def scatter(self, x, index, updates, window, inserted, dims_map, vector_dim, combine, batching=((), ())):
        """`combine(old, new)` on scalars; the result has x's type."""
        numbers = (
            f"update_window_dims = {bracketed(window)}, inserted_window_dims = {bracketed(inserted)}, "
            f"input_batching_dims = {bracketed(batching[0])}, scatter_indices_batching_dims = {bracketed(batching[1])}, "
            f"scatter_dims_to_operand_dims = {bracketed(dims_map)}, index_vector_dim = {vector_dim}"
        )
        scalar = ((), x.dtype)
        body = self.block([scalar, scalar], lambda old, new: [combine(old, new)])
        attrs = (
            f"indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, "
            "unique_indices = false"
        )
        return self.op("scatter", [x, index, updates], x.dims, x.dtype, attrs, body)

    def reduce_window(self, kind, x, start, window, strides, padding, dilation=None, base=None):
        """`padding`: pairs (low, high) per dim."""
        dilation, base = dilation or [1] * x.rank, base or [1] * x.rank
        dims = []
        for d, w, s, (l, h), k, e in zip(x.dims, window, strides, padding, dilation, base):
            room = (d - 1) * e + 1 + l + h - ((w - 1) * k + 1)
            dims.append(room // s + 1 if d and room >= 0 else 0)
        scalar = ((), x.dtype)
        body = self.block([scalar, scalar], lambda a, c: [self.binary(kind, a, c)])
        pairs = ", ".join(f"[{l}, {h}]" for l, h in padding)
        attrs = (
            f"base_dilations = {ints(base)}, padding = dense<[{pairs}]> : tensor<{x.rank}x2xi64>, "
            f"window_dilations = {ints(dilation)}, window_dimensions = {ints(window)}, window_strides = {ints(strides)}"
        )
        init = start if isinstance(start, Value) else self.constant(start, x.dtype)
        return self.op("reduce_window", [x, init], dims, x.dtype, attrs, body)

    def sort(self, keys, dim, before, stable=True):
        """Sorts several arrays by `before(a0, b0, a1, b1 ...) -> bool` on scalars."""
        params = [((), k.dtype) for k in keys for _ in range(2)]
        body = self.block(params, lambda *v: [before(*v)])
        attrs = f"dimension = {dim} : i64, is_stable = {'true' if stable else 'false'}"
        return self.op_many("sort", keys, [(k.dims, k.dtype) for k in keys], attrs, body)


def nested(flat, dims):
    if not dims:
        return flat[0]
    step = len(flat) // dims[0]
    return "[" + ", ".join(nested(flat[i * step : (i + 1) * step], dims[1:]) for i in range(dims[0])) + "]"

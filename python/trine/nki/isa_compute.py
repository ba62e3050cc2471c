"""nki.isa on the compute engines: elementwise, reductions, activations, selection, statistics, search, random numbers.

Each function is its documented signature and the row it records; the row's own rules are checked in C++.
"""

from trine.nki import isa_enums as e
from trine.nki import ops, psum
from trine.nki.emit import emit, engine_name, member, needs, tensor
from trine.nki.isa_enums import reduce_cmd as _cmd
from trine.nki.tensor import NkiTensor
from trine.nki.trace import current, error

_unknown = e.engine.unknown
_INT32 = ("s32", "u32")


def _note_psum(dst):
    if isinstance(dst, NkiTensor) and dst.storage.space == "psum":
        psum.note_write(dst)


def _exact_int(*tensors):
    return all(t.dtype.trine in _INT32 for t in tensors)


def _in_sbuf(*tensors):
    return all(t.storage.space == "sbuf" for t in tensors)


def tensor_copy(dst, src, engine=_unknown, name=None, dtype=None):
    """dtype is what kernels of NKI 0.2 still pass; dst decides."""
    tensor(dst, "dst"), tensor(src, "src")
    chosen = engine_name(engine, ("vector", "scalar", "gpsimd"), "tensor_copy")
    if chosen is None and dst.dtype.bits == 32 and not (dst.dtype.is_float and src.dtype.is_float):
        chosen = "vector"  # bit for bit; Scalar goes through f32 on v2
    _note_psum(dst)
    return emit("tensor_copy", {"dst": dst, "src": src}, {}, chosen, name)


def memset(dst, value, engine=_unknown, name=None):
    tensor(dst, "dst")
    if value == 0 and dst.storage.space == "psum" and dst.is_contiguous():
        psum.note_zeros(dst)
    else:
        _note_psum(dst)
    return emit("memset", {"dst": dst}, {"value": float(value)}, engine_name(engine, ("vector", "gpsimd"), "memset"), name)


def _bits(predicate):
    """A predicate of bools as the bytes they are."""
    if isinstance(predicate, NkiTensor) and predicate.dtype.trine == "bool":
        return predicate.view("uint8")
    return predicate


def tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None):
    _note_psum(dst)
    operands = {"dst": dst, "src": src, "predicate": _bits(predicate)}
    return emit("tensor_copy_predicated", operands, {"reverse_pred": reverse_pred}, "vector", name)


def tensor_tensor(dst, data1, data2, op, engine=_unknown, name=None):
    tensor(dst, "dst"), tensor(data1, "data1"), tensor(data2, "data2")
    chosen = engine_name(engine, ("vector", "gpsimd"), "tensor_tensor")
    alu = ops.alu(op)
    if chosen is None:
        exact = _exact_int(dst, data1, data2) and _in_sbuf(dst, data1, data2) and alu in _GPSIMD_INT
        chosen = "gpsimd" if alu == "power" or exact else "vector"
    _note_psum(dst)
    return emit("tensor_tensor", {"dst": dst, "data1": data1, "data2": data2}, {"op": alu}, chosen, name)


_GPSIMD_INT = ("add", "subtract", "multiply", "max", "min", "equal", "not_equal", "greater_equal", "greater",
               "less_equal", "less")  # fmt: skip
_UNARY = ("abs", "square", "relu", "rsqrt", "reciprocal", "invert", "bypass")


def _unary_operand(alu, operand, slot):
    """The operand of an ALU operator; unary ones take none."""
    if alu in _UNARY:
        if operand is not None and not (isinstance(operand, (int, float)) and operand == 0):
            raise error("NKI003", f"{slot} given with the unary operator {alu}", "None or 0")
        return None
    return operand


def tensor_scalar(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False,
                  engine=_unknown, name=None):  # fmt: skip
    tensor(dst, "dst"), tensor(data, "data")
    first, second = ops.alu(op0, "op0"), ops.alu(op1, "op1")
    attrs = {"op0": first, "reverse0": reverse0, "op1": second or "bypass", "reverse1": reverse1}
    operands = {"dst": dst, "data": data, "operand0": _unary_operand(first, operand0, "operand0")}
    if second is not None:
        operands["operand1"] = _unary_operand(second, operand1, "operand1")
    elif operand1 is not None:
        raise error("NKI003", "operand1 without op1", "both or none")
    chosen = engine_name(engine, ("vector", "scalar", "gpsimd"), "tensor_scalar")
    if chosen is None and "rsqrt" in (first, second):
        chosen = "gpsimd"
    elif chosen is None and not (dst.dtype.is_float and data.dtype.is_float):
        chosen = "vector"
    _note_psum(dst)
    return emit("tensor_scalar", operands, attrs, chosen, name)


def scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, name=None):
    first = ops.alu(op0, "op0")
    operands = {"dst": dst, "data": data, "operand0": _unary_operand(first, operand0, "operand0"),
                "operand1": tensor(operand1, "operand1")}  # fmt: skip
    attrs = {"op0": first, "op1": ops.alu(op1, "op1"), "reverse0": reverse0, "reverse1": reverse1}
    _note_psum(dst)
    return emit("scalar_tensor_tensor", operands, attrs, "vector", name)


def tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None):
    operands = {"dst": dst, "data0": data0, "data1": data1, "initial": initial}
    attrs = {"op0": ops.alu(op0, "op0"), "op1": ops.alu(op1, "op1"), "reverse0": reverse0, "reverse1": reverse1}
    _note_psum(dst)
    return emit("tensor_tensor_scan", operands, attrs, "vector", name)


def trailing_axes(axis, ndim, what):
    """The reduced axes as a sorted list; they must be the last free dimensions."""
    axes = sorted(a + ndim if a < 0 else a for a in ([axis] if isinstance(axis, int) else list(axis)))
    if axes != list(range(ndim - len(axes), ndim)) or not axes or axes[0] == 0:
        raise error("NKI015", f"{what} over axis {axis} of {ndim} dimensions",
                    "the last free dimensions, ending at the final one, without the partition",
                    "permute the view first; across partitions use nc_transpose or a matmul with ones")
    return axes


def tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None):
    tensor(dst, "dst"), tensor(data, "data")
    axes = trailing_axes(axis, data.ndim, "tensor_reduce")
    outer = data.shape[: axes[0]]
    count = 1
    for n in outer[1:]:
        count *= n
    got = dst.size // dst.shape[0]
    if got != count:
        raise error("NKI015", f"dst has {got} elements per partition", f"{count}, what is left of {data.shape} over {axes}")
    _note_psum(dst)
    return emit("tensor_reduce", {"dst": dst, "data": data}, {"op": ops.alu(op), "negate": negate}, "vector", name)


def tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False,
                         reduce_cmd=_cmd.reset_reduce, reduce_init=None, reduce_res_negate=False, name=None):  # fmt: skip
    if reverse0:
        raise error("NKI018", "reverse0=True", "False; NKI does not support it in tensor_scalar_reduce",
                    "negate or invert the operand instead")
    first = ops.alu(op0, "op0")
    cmd = member(reduce_cmd, _cmd, "reduce_cmd")
    operands = {"dst": dst, "data": data, "operand0": _unary_operand(first, operand0, "operand0"),
                "reduce_init": reduce_init if cmd == "load_reduce" else None, "reduce_res": reduce_res}  # fmt: skip
    attrs = {"op0": first, "reduce_op": ops.alu(reduce_op, "reduce_op"), "reduce_cmd": cmd}
    _note_psum(dst)
    made = emit("tensor_scalar_reduce", operands, attrs, "vector", name)
    if reduce_res_negate and reduce_res is not None:
        tensor_scalar(reduce_res, reduce_res, "multiply", -1.0)
    return made


def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None, reduce_cmd=_cmd.reset_reduce, name=None):
    first, cmd = ops.alu(op0, "op0"), member(reduce_cmd, _cmd, "reduce_cmd")
    operands = {"dst": dst, "src": src, "imm0": _unary_operand(first, imm0, "imm0"),
                "imm1": imm1 if cmd == "load_reduce" else None}  # fmt: skip
    attrs = {"op0": first, "op1": ops.alu(op1, "op1"), "reduce_cmd": cmd}
    _note_psum(dst)
    return emit("tensor_scalar_cumulative", operands, attrs, "vector", name)


def _scaled(scale):
    return None if isinstance(scale, (int, float)) and scale == 1 else scale


def activation(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, reduce_cmd=_cmd.idle, name=None):
    tensor(dst, "dst"), tensor(data, "data")
    operands = {"dst": dst, "data": data, "bias": bias, "scale": _scaled(scale), "reduce_res": reduce_res}
    attrs = {"op": ops.act(op), "reduce_op": ops.alu(reduce_op, "reduce_op") or "add",
             "reduce_cmd": member(reduce_cmd, _cmd, "reduce_cmd")}  # fmt: skip
    _note_psum(dst)
    return emit("activation", operands, attrs, "scalar", name)


def activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None):
    operands = {"dst": dst, "data": data, "bias": bias, "scale": _scaled(scale), "reduce_res": reduce_res}
    _note_psum(dst)
    return emit("activation_reduce", operands, {"op": ops.act(op), "reduce_op": ops.alu(reduce_op)}, "scalar", name)


def activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None,
              reduce_res=None, reduce_cmd=_cmd.idle, name=None):  # fmt: skip
    needs("activate2", "activate2")
    first, second = ops.alu(op0, "op0") or "bypass", ops.alu(op1, "op1") or "bypass"
    operands = {"dst": dst, "data": data, "imm0": None if first == "bypass" else imm0,
                "imm1": None if second == "bypass" else imm1,
                "relu_param": relu_param if ops.act(op) == "prelu" else None, "reduce_res": reduce_res}  # fmt: skip
    attrs = {"op": ops.act(op), "op0": first, "op1": second, "reverse0": reverse0, "reverse1": reverse1,
             "reduce_op": ops.alu(reduce_op, "reduce_op") or "add",
             "reduce_cmd": member(reduce_cmd, _cmd, "reduce_cmd")}  # fmt: skip
    _note_psum(dst)
    return emit("activate2", operands, attrs, "scalar", name)


def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=_cmd.idle, reduce_init=0.0, name=None):
    needs("exponential", "exponential")
    cmd = member(reduce_cmd, _cmd, "reduce_cmd")
    operands = {"dst": dst, "src": src, "max_value": max_value, "reduce_res": reduce_res,
                "reduce_init": reduce_init if cmd == "load_reduce" else None}  # fmt: skip
    _note_psum(dst)
    return emit("exponential", operands, {"reduce_cmd": cmd}, "vector", name)


FP32_MIN = -3.4028234663852886e38


def range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=_cmd.reset_reduce, reduce_res=None,
                 reduce_op="max", range_start=0, on_false_value=FP32_MIN, name=None):  # fmt: skip
    needs("range_select", "range_select")
    if abs(float(on_false_value) - FP32_MIN) > 1e32:
        raise error("NKI003", f"on_false_value={on_false_value}", "the lowest float32, -3.4028235e+38; the hardware has no other")
    if ops.alu(reduce_op, "reduce_op") != "max":
        raise error("NKI018", f"reduce_op={reduce_op!r}", "nl.maximum")
    operands = {"dst": dst, "on_true_tile": on_true_tile, "bound0": bound0, "bound1": bound1, "reduce_res": reduce_res}
    attrs = {"comp_op0": ops.alu(comp_op0, "comp_op0"), "comp_op1": ops.alu(comp_op1, "comp_op1"),
             "range_start": range_start, "reduce_cmd": member(reduce_cmd, _cmd, "reduce_cmd")}  # fmt: skip
    return emit("range_select", operands, attrs, "vector", name)


def select_reduce(dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=_cmd.idle, reduce_op="max",
                  reverse_pred=False, name=None):  # fmt: skip
    if ops.alu(reduce_op, "reduce_op") != "max":
        raise error("NKI018", f"reduce_op={reduce_op!r}", "nl.maximum")
    operands = {"dst": dst, "predicate": _bits(predicate), "on_true": on_true, "on_false": on_false, "reduce_res": reduce_res}
    attrs = {"reverse_pred": reverse_pred, "reduce_cmd": member(reduce_cmd, _cmd, "reduce_cmd")}
    return emit("select_reduce", operands, attrs, "vector", name)


def get_nc_version():
    """The core version that the kernel is traced for; NKI has no name for what comes after gen4."""
    return e.nc_version(min(current().chip["generation"], e.nc_version.gen4.value))


def get_nc_sub_version():
    """Its silicon revision."""
    return 0

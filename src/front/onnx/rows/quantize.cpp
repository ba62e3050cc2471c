// Quantised tensors: integers with a scale and a zero point, of the whole tensor, of an axis or of blocks of it.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/matmul.h"
#include "front/onnx/tensor.h"
#include "front/onnx/window.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

// A scale or zero point lined up with x: one number, one per index of the axis, or one per block along it.
Made lined_up(Call& c, Value v, Value x, int64_t axis_given, int64_t block) {
  if (rank(v) == 0 || (rank(v) == 1 && dims(v)[0] == 1 && block == 0))
    return c.b.broadcast(TRY(c.b.reshape(v, {})), dims(x));
  const int axis = TRY(c.axis(axis_given, rank(x)));
  if (block == 0) {
    if (rank(v) == 1 && dims(v)[0] == dims(x)[size_t(axis)]) return c.b.broadcast(v, dims(x), {axis});
    return fail(Code::invalid,
                cat("a scale or zero point of ", ir::text(v.type()), " along axis ", axis, " of ", ir::text(x.type())));
  }
  const auto k = size_t(axis);
  if (block < 0 || block > (int64_t{1} << 16) || rank(v) != rank(x) || dims(v)[k] * block < dims(x)[k])
    return fail(Code::invalid,
                cat("blocks of ", block, " with scales of ", ir::text(v.type()), " in ", ir::text(x.type())));
  Dims apart = dims(v), joined = dims(v);
  apart.insert(apart.begin() + axis + 1, block);
  joined[k] *= block;
  Ints indices;
  for (int64_t d = 0; d < rank(v); ++d) indices.push_back(d <= axis ? d : d + 1);
  const Value repeated = TRY(c.b.reshape(TRY(c.b.broadcast(v, apart, indices)), joined));
  return c.b.slice_dim(repeated, axis, 0, dims(x)[k]);
}

// Rounded to even and saturated; floats of 8 bits and fewer only saturate.
Made saturate(Build& b, Value x, Dtype to) {
  const DtypeRow& limits = row(to);
  if (is_integer(to)) x = TRY(b.unary(op::round_nearest_even, x));
  return b.convert(TRY(b.clamp(x, limits.min_finite, limits.max_finite)), to);
}

Made quantize(Call& c, Value x, Value scale, Value zero, Dtype to, int64_t axis, int64_t block) {
  const Value wide = TRY(c.b.convert(x, Dtype::f32));
  const Value divisor = TRY(c.b.convert(TRY(lined_up(c, scale, x, axis, block)), Dtype::f32));
  Value y = TRY(c.b.binary(op::divide, wide, divisor));
  if (zero && is_integer(to)) {
    y = TRY(c.b.unary(op::round_nearest_even, y));
    y = TRY(c.b.binary(op::add, y, TRY(c.b.convert(TRY(lined_up(c, zero, x, axis, block)), Dtype::f32))));
  }
  return saturate(c.b, y, to);
}

Lowered quantize_linear(Call& c) {
  Dtype to = c.has(2) ? dtype(c.in[2]) : Dtype::u8;
  if (const int64_t given = c.integer("output_dtype", 0); given != 0 && !c.has(2)) to = TRY(dtype_of(given));
  return one(quantize(c, c.in[0], c.in[1], c.has(2) ? c.in[2] : Value{}, to, c.integer("axis", 1),
                      c.integer("block_size", 0)));
}

Lowered dequantize_linear(Call& c) {
  const Value x = c.in[0];
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  Dtype to = dtype(c.in[1]);
  if (const int64_t given = c.integer("output_dtype", 0); given != 0) to = TRY(dtype_of(given));
  Value y = TRY(c.b.convert(x, Dtype::f32));
  if (c.has(2))
    y = TRY(c.b.binary(op::subtract, y, TRY(c.b.convert(TRY(lined_up(c, c.in[2], x, axis, block)), Dtype::f32))));
  const Value scale = TRY(c.b.convert(TRY(lined_up(c, c.in[1], x, axis, block)), Dtype::f32));
  return one(c.b.convert(TRY(c.b.binary(op::multiply, y, scale)), to));
}

// To u8, with the scale and zero point that cover the tensor and zero.
Lowered dynamic_quantize_linear(Call& c) {
  const Value x = c.in[0];
  const Ints all = count_up(0, rank(x));
  const Value high = TRY(c.b.with_number(op::maximum, TRY(c.b.reduce(x, "maximum", all, false)), 0));
  const Value low = TRY(c.b.with_number(op::minimum, TRY(c.b.reduce(x, "minimum", all, false)), 0));
  const Value scale = TRY(c.b.with_number(op::divide, TRY(c.b.binary(op::subtract, high, low)), 255));
  const Value shift = TRY(c.b.unary(op::negate, TRY(c.b.binary(op::divide, low, scale))));
  const Value zero = TRY(saturate(c.b, shift, Dtype::u8));
  return Values{TRY(quantize(c, x, scale, zero, Dtype::u8, 0, 0)), scale, zero};
}

// As s32 with the zero point taken away; a vector of zero points lies along `axis`.
Made centred(Call& c, Value x, Value zero, int64_t axis) {
  const Value wide = TRY(c.b.convert(x, Dtype::s32));
  if (!zero) return wide;
  if (rank(zero) > 1) return c.b.binary(op::subtract, wide, TRY(c.b.convert(zero, Dtype::s32)));
  return c.b.binary(op::subtract, wide, TRY(c.b.convert(TRY(lined_up(c, zero, x, axis, 0)), Dtype::s32)));
}

Lowered matmul_integer(Call& c) {
  const Value a = TRY(centred(c, c.in[0], c.has(2) ? c.in[2] : Value{}, -2));
  const Value b = TRY(centred(c, c.in[1], c.has(3) ? c.in[3] : Value{}, -1));
  return one(matmul(c.b, a, b, Dtype::s32));
}

Lowered conv_integer(Call& c) {
  const Value x = TRY(centred(c, c.in[0], c.has(2) ? c.in[2] : Value{}, 1));
  const Value w = TRY(centred(c, c.in[1], c.has(3) ? c.in[3] : Value{}, 0));
  return one(convolve(c, x, w, Dtype::s32));
}

// scale * sum, in the result's own scale.
Made requantize(Call& c, Value sum, Value a_scale, Value b_scale, Value scale, Value zero, int64_t axis) {
  const auto wide = [&](Value v, int64_t at) -> Made {
    if (rank(v) > 1) return c.b.convert(v, Dtype::f32);
    return c.b.convert(TRY(lined_up(c, v, sum, at, 0)), Dtype::f32);
  };
  Value y = TRY(c.b.convert(sum, Dtype::f32));
  y = TRY(c.b.binary(op::multiply, y, TRY(wide(a_scale, -2))));
  y = TRY(c.b.binary(op::multiply, y, TRY(wide(b_scale, axis))));
  y = TRY(c.b.unary(op::round_nearest_even, TRY(c.b.binary(op::divide, y, TRY(wide(scale, axis))))));
  y = TRY(c.b.binary(op::add, y, TRY(wide(zero, axis))));
  return saturate(c.b, y, dtype(zero));
}

Lowered qlinear_matmul(Call& c) {
  const Value a = TRY(centred(c, c.in[0], c.in[2], -2)), b = TRY(centred(c, c.in[3], c.in[5], -1));
  return one(requantize(c, TRY(matmul(c.b, a, b, Dtype::s32)), c.in[1], c.in[4], c.in[6], c.in[7], -1));
}

Lowered qlinear_conv(Call& c) {
  const Value x = TRY(centred(c, c.in[0], c.in[2], 1)), w = TRY(centred(c, c.in[3], c.in[5], 0));
  Value sum = TRY(convolve(c, x, w, Dtype::s32));
  if (c.has(8)) sum = TRY(c.b.binary(op::add, sum, TRY(c.b.broadcast(c.in[8], dims(sum), {1}))));
  return one(requantize(c, sum, c.in[1], c.in[4], c.in[6], c.in[7], 1));
}

const Row kRows[] = {
    {"ConvInteger", 10, 2, 4, conv_integer},
    {"DequantizeLinear", 10, 2, 3, dequantize_linear},
    {"DynamicQuantizeLinear", 11, 1, 1, dynamic_quantize_linear},
    {"MatMulInteger", 10, 2, 4, matmul_integer},
    {"QLinearConv", 10, 8, 9, qlinear_conv},
    {"QLinearMatMul", 10, 8, 8, qlinear_matmul},
    {"QuantizeLinear", 10, 2, 3, quantize_linear},
};

}  // namespace

std::span<const Row> rows_quantize() { return kRows; }

}  // namespace trine::front::onnx

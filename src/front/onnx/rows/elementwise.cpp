// Ops of ONNX that compute each element from the elements at the same index, after broadcasting.
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"
#include "front/onnx/tensor.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

template <const char* kDirection>
Lowered compare(Call& c) {
  return one(c.b.compare(c.in[0], c.in[1], kDirection));
}
template <ir::OpId kOp>
Lowered fold_left(Call& c) {
  Value out = c.in[0];
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (!c.has(i)) return fail(Code::invalid, cat("input ", i, " is absent"));
    out = TRY(c.b.binary(kOp, out, c.in[i]));
  }
  return Values{out};
}

constexpr char kEq[] = "EQ", kGt[] = "GT", kGe[] = "GE", kLt[] = "LT", kLe[] = "LE";

Lowered mean(Call& c) {
  const Values sum = TRY(fold_left<op::add>(c));
  return one(c.b.with_number(op::divide, sum[0], double(c.in.size())));
}

Lowered reciprocal(Call& c) { return one(c.b.binary(op::divide, TRY(c.b.number(dtype(c.in[0]), 1)), c.in[0])); }

// The result has the base's type; the exponent may have any other.
Lowered power(Call& c) {
  const Value base = c.in[0];
  Value exponent = c.in[1];
  if (is_float(base) || !is_float(exponent))
    return one(c.b.binary(op::power, base, TRY(c.b.convert(exponent, dtype(base)))));
  const Value wide = TRY(c.b.convert(base, dtype(exponent)));
  return one(c.b.convert(TRY(c.b.binary(op::power, wide, exponent)), dtype(base)));
}

// With fmod the remainder has the dividend's sign, else the divisor's.
Lowered modulo(Call& c) {
  const Value rest = TRY(c.b.binary(op::remainder, c.in[0], c.in[1]));
  if (c.integer("fmod", 0) != 0) return Values{rest};
  const Value divisor = TRY(c.b.broadcast(c.in[1], dims(rest)));
  const Value apart =
      TRY(c.b.compare(TRY(c.b.compare_number(rest, 0, "LT")), TRY(c.b.compare_number(divisor, 0, "LT")), "NE"));
  const Value moves = TRY(c.b.binary(op::and_, apart, TRY(c.b.compare_number(rest, 0, "NE"))));
  return one(c.b.select(moves, TRY(c.b.binary(op::add, rest, divisor)), rest));
}

Lowered shift(Call& c) {
  const std::string_view direction = c.text("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return fail(Code::invalid, cat("direction `", direction, "`; expected LEFT or RIGHT"));
  const bool is_signed = row(dtype(c.in[0])).kind == DtypeKind::signed_int;
  const ir::OpId right = is_signed ? op::shift_right_arithmetic : op::shift_right_logical;
  return one(c.b.binary(direction == "LEFT" ? op::shift_left : right, c.in[0], c.in[1]));
}

Lowered is_nan(Call& c) { return one(c.b.compare(c.in[0], c.in[0], "NE")); }

Lowered is_infinite(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  const bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  if (!negative && !positive) return one(c.b.number(Dtype::boolean, 0, dims(x)));
  return one(c.b.unary(negative && positive ? op::is_inf : negative ? op::is_neg_inf : op::is_pos_inf, x));
}

Lowered where(Call& c) {
  if (dtype(c.in[1]) != dtype(c.in[2]))
    return fail(Code::invalid, cat("found ", ir::text(c.in[1].type()), " and ", ir::text(c.in[2].type()),
                                   "; expected one element type"));
  return one(c.b.select(c.in[0], c.in[1], c.in[2]));
}

Made cast(Call& c, Value x, Dtype to) {
  const DtypeRow &from_row = row(dtype(x)), &to_row = row(to);
  if (is_float(to) && to_row.bits == 8 && to != Dtype::f8e8m0 && c.integer("saturate", 1) != 0 && is_float(x) &&
      from_row.max_finite > to_row.max_finite)
    x = TRY(c.b.clamp(x, to_row.min_finite, to_row.max_finite));
  // Integers narrower than a byte keep their lowest bits, of floats too.
  if (is_integer(to) && to_row.bits < 8 && is_float(x)) x = TRY(c.b.convert(x, Dtype::s32));
  return c.b.convert(x, to);
}

Lowered cast_to(Call& c) { return one(cast(c, c.in[0], TRY(dtype_of(c.integer("to", 0))))); }
Lowered cast_like(Call& c) { return one(cast(c, c.in[0], dtype(c.in[1]))); }

Lowered bit_cast(Call& c) {
  const Dtype to = TRY(dtype_of(c.integer("to", 0)));
  if (row(to).bits != kDtypes[size_t(dtype(c.in[0]))].bits)
    return fail(Code::invalid, cat("from ", ir::text(c.in[0].type()), " to ", row(to).name, ", of another size"));
  if (to == dtype(c.in[0])) return Values{c.in[0]};
  if (to == Dtype::boolean || dtype(c.in[0]) == Dtype::boolean) return one(c.b.convert(c.in[0], to));
  return one(c.b.op(op::bitcast_convert, {c.in[0]}, {}, {ir::tensor_type(to, dims(c.in[0]))}));
}

const Row kRows[] = {
    {"BitCast", 26, 1, 1, bit_cast},
    {"BitShift", 11, 2, 2, shift},
    {"Cast", 6, 1, 1, cast_to},
    {"CastLike", 15, 2, 2, cast_like},
    {"Equal", 7, 2, 2, compare<kEq>},
    {"Greater", 7, 2, 2, compare<kGt>},
    {"GreaterOrEqual", 12, 2, 2, compare<kGe>},
    {"IsInf", 10, 1, 1, is_infinite},
    {"IsNaN", 9, 1, 1, is_nan},
    {"Less", 7, 2, 2, compare<kLt>},
    {"LessOrEqual", 12, 2, 2, compare<kLe>},
    {"Max", 6, 1, -1, fold_left<op::maximum>},
    {"Mean", 6, 1, -1, mean},
    {"Min", 6, 1, -1, fold_left<op::minimum>},
    {"Mod", 10, 2, 2, modulo},
    {"Pow", 7, 2, 2, power},
    {"Reciprocal", 1, 1, 1, reciprocal},
    {"Sum", 6, 1, -1, fold_left<op::add>},
    {"Where", 9, 3, 3, where},
};

}  // namespace

std::span<const Row> rows_elementwise() { return kRows; }

}  // namespace trine::front::onnx

// Whole numbers divided: no engine does it, so a quotient is guessed in f32 and mended by what is left of the dividend.
// Exact for all 32-bit operands: the guess is off by 2^-22 of itself, a second one of the rest by less than two.
#include <cmath>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/internal.h"

namespace trine::compile::device {

using ir::Value;

namespace {

struct Halves {
  Value quotient, rest;
};

// Words without a sign, held as s32; `small`: the divisor is known to be 1 … 2^31 - 1.
Halves divide_words(ops::Make& make, const Value& a, const Value& b, bool small) {
  const Dims& dims = a.type().dims;
  const auto s32 = [&](double v) { return make.number(Dtype::s32, v, dims); };
  const auto two = [&](ir::OpId op, const Value& x, const Value& y) { return make.op(op, {x, y}); };
  const auto as_float = [&](const Value& x) { return make.convert(make.bits(x, Dtype::u32), Dtype::f32); };
  const Value by = two(op::maximum, as_float(b), make.number(Dtype::f32, 1, dims));
  const Value first = make.bits(make.convert(two(op::divide, as_float(a), by), Dtype::u32), Dtype::s32);
  const Value left = two(op::subtract, a, two(op::multiply, first, b));
  const Value second = make.convert(two(op::divide, make.convert(left, Dtype::f32), by), Dtype::s32);
  Value q = two(op::add, first, second), r = two(op::subtract, left, two(op::multiply, second, b));
  const Value under = make.compare(r, s32(0), "LT");
  q = make.op(op::select, {under, two(op::subtract, q, s32(1)), q});
  r = make.op(op::select, {under, two(op::add, r, b), r});
  const Value over = make.compare(r, b, "GE");
  q = make.op(op::select, {over, two(op::add, q, s32(1)), q});
  r = make.op(op::select, {over, two(op::subtract, r, b), r});
  if (small) return {q, r};
  const Value huge = make.compare(b, s32(0), "LT");  // 2^31 and above: once or not at all
  const Value once = two(op::and_, make.compare(a, s32(0), "LT"), make.compare(a, b, "GE"));
  q = make.op(op::select, {huge, make.convert(once, Dtype::s32), q});
  r = make.op(op::select, {huge, make.op(op::select, {once, two(op::subtract, a, b), a}), r});
  const Value none = make.compare(b, s32(0), "EQ");  // StableHLO leaves it open; XLA gives all ones and the dividend
  return {make.op(op::select, {none, s32(-1), q}), make.op(op::select, {none, a, r})};
}

// By a number from 2 on, both with a sign: |rest| is at most a little over half of it. Two guesses that are rounded to
// the nearest do: the first is off by 2^-22 of itself, the second by less than one.
Halves divide_near(ops::Make& make, const Value& x, double number) {
  const Dims& dims = x.type().dims;
  const Value d = make.number(Dtype::s32, number, dims), part = make.number(Dtype::f32, 1 / number, dims);
  const auto two = [&](ir::OpId op, const Value& a, const Value& b) { return make.op(op, {a, b}); };
  const auto guess = [&](const Value& v) {
    return make.own(op::convert, {two(op::multiply, make.convert(v, Dtype::f32), part)},
                    ir::tensor_type(Dtype::s32, dims), {{std::string(ops::kNearest), true}});
  };
  const Value first = guess(x), left = two(op::subtract, x, two(op::multiply, first, d)), second = guess(left);
  return {two(op::add, first, second), two(op::subtract, left, two(op::multiply, second, d))};
}

Value is_below(ops::Make& make, const Value& x) {  // 1 or 0
  return make.op(op::shift_right_logical, {x, make.number(Dtype::s32, 31, x.type().dims)});
}

// Towards zero: what is left has the sign of the dividend.
Halves divide_near_zero(ops::Make& make, const Value& x, double number) {
  const auto two = [&](ir::OpId op, const Value& a, const Value& b) { return make.op(op, {a, b}); };
  const auto out = divide_near(make, x, number);
  const Value below = is_below(make, x), flips = make.op(op::negate, {below});
  const auto flipped = [&](const Value& v) { return two(op::add, two(op::xor_, v, flips), below); };
  const Value far = flipped(is_below(make, flipped(out.rest)));
  return {two(op::subtract, out.quotient, far),
          two(op::add, out.rest, two(op::multiply, far, make.number(Dtype::s32, number, x.type().dims)))};
}

// A divisor that divide_near takes: a number of many elements, with a sign.
std::optional<double> near_divisor(const ir::Node& node) {
  const auto number = ir::splat(node.inputs[1]);
  const bool has_sign = row(node.types[0].dtype).kind == DtypeKind::signed_int && bytes(node.types[0].dtype) <= 4;
  return number && has_sign && *number >= 2 && *number < 0x1p31 ? number : std::nullopt;
}

bool is_compare(const Value& v, std::string_view direction) {
  return v.node->op == op::compare && v.node->attrs.text("direction") == direction;
}
bool is_number(const Value& v, double want) { return ir::splat(v) == want; }

}  // namespace

// As Python divides whole numbers: where a sign differs and something is left, one less; the rest then has the
// divisor's sign.
ir::Replacement divide_downwards(ir::Graph& graph, const ir::Node& node) {
  const ir::Node &both = *node.inputs[0].node, &plain = *node.inputs[2].node, &other = *node.inputs[1].node;
  if (both.op != op::and_ || (plain.op != op::divide && plain.op != op::remainder)) return {};
  const auto number = near_divisor(plain);
  if (!number || node.types[0].dtype != Dtype::s32) return {};
  const Value x = plain.inputs[0];
  const bool quotient = plain.op == op::divide;
  if (other.op != (quotient ? op::subtract : op::add) || other.inputs[0].node != &plain ||
      !is_number(other.inputs[1], quotient ? 1 : *number))
    return {};
  const auto is_rest = [&](const Value& v) {
    return quotient ? v.node->op == op::remainder && v.node->inputs[0] == x && is_number(v.node->inputs[1], *number)
                    : v.node == &plain;
  };
  const auto is_left = [&](const Value& v) {
    return is_compare(v, "NE") && is_rest(v.node->inputs[0]) && is_number(v.node->inputs[1], 0);
  };
  const auto differs = [&](Value v) {
    if (!quotient && is_compare(v, "NE") && is_number(v.node->inputs[1], 0)) v = v.node->inputs[0];
    if (!quotient) return is_compare(v, "LT") && is_rest(v.node->inputs[0]) && is_number(v.node->inputs[1], 0);
    return is_compare(v, "NE") && v.node->inputs[0].node->op == op::sign && v.node->inputs[0].node->inputs[0] == x &&
           is_number(v.node->inputs[1], 1);
  };
  const Value &a = both.inputs[0], &b = both.inputs[1];
  if (!(is_left(a) && differs(b)) && !(is_left(b) && differs(a))) return {};
  ops::Make make(graph, node.where);
  const Halves out = divide_near(make, x, *number);
  const Value far = is_below(make, out.rest);
  if (quotient) return {make.op(op::subtract, {out.quotient, far})};
  const Value back = make.op(op::multiply, {far, make.number(Dtype::s32, *number, x.type().dims)});
  return {make.op(op::add, {out.rest, back})};
}

ir::Replacement divide_by_guesses(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  if (!is_integer(dtype) || !device_dtype(dtype) || bytes(dtype) > 4) return {};
  const bool has_sign = row(dtype).kind == DtypeKind::signed_int;
  const auto number = ir::splat(node.inputs[1]);
  if (!has_sign && number && *number >= 1 && std::exp2(std::round(std::log2(*number))) == *number) return {};
  ops::Make make(graph, node.where);
  if (const auto near = near_divisor(node)) {
    const Halves out = divide_near_zero(make, make.convert(node.inputs[0], Dtype::s32), *near);
    return {make.convert(node.op == op::divide ? out.quotient : out.rest, dtype)};
  }
  const Dtype wide = has_sign ? Dtype::s32 : Dtype::u32;
  Value a = make.bits(make.convert(node.inputs[0], wide), Dtype::s32);
  Value b = make.bits(make.convert(node.inputs[1], wide), Dtype::s32);
  const Value zero = make.number(Dtype::s32, 0, a.type().dims);
  const bool small = number && *number >= 1 && *number < 0x1p31;
  const Value a_below = make.compare(a, zero, "LT"), b_below = make.compare(b, zero, "LT");
  if (has_sign) a = make.op(op::abs, {a});
  if (has_sign && !small) b = make.op(op::abs, {b});
  Halves out = divide_words(make, a, b, small);
  Value found = node.op == op::divide ? out.quotient : out.rest;
  if (has_sign) {
    Value negative = a_below;
    if (node.op == op::divide && !small) {
      negative = make.op(op::xor_, {a_below, b_below});
      const Value none = make.compare(b, zero, "EQ");  // minus one whatever the dividend's sign is
      found = make.op(op::select,
                      {make.op(op::and_, {none, a_below}), make.number(Dtype::s32, 1, zero.type().dims), found});
    }
    found = make.op(op::select, {negative, make.op(op::negate, {found}), found});
  }
  return {make.convert(make.bits(found, wide), dtype)};
}

}  // namespace trine::compile::device

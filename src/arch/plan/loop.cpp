// The table of tile ops, the text of programs and the builder. What makes a program legal is in tile_verify.cpp.
#include "arch/plan/loop.h"

#include <bit>

#include "base/text.h"

namespace trine::arch {

namespace {

using enum TileTypes;
using enum TileClass;

constexpr TileOpRow kRows[] = {
    {TileOp::load, "load", 0, any, source, "the operand's element; narrow floats widen to f32"},
    {TileOp::store, "store", 1, any, TileClass::store, "rounds narrow floats to nearest even, wraps integers"},
    {TileOp::constant, "constant", 0, any, source, ""},
    {TileOp::iota, "iota", 0, number, source, "index along a dim"},
    {TileOp::pick, "pick", 1, any, TileClass::pick,
     "the operand's element that lies an index further, held to 0 up to the largest"},
    {TileOp::add, "add", 2, number, map, ""},
    {TileOp::sub, "sub", 2, number, map, ""},
    {TileOp::mul, "mul", 2, number, map, ""},
    {TileOp::div, "div", 2, number, map, "integers: x/0 is all ones, min/-1 is min"},
    {TileOp::rem, "rem", 2, number, map, "sign of the dividend; integers: x%0 is x"},
    {TileOp::max, "max", 2, any, map, "NaN if either is"},
    {TileOp::min, "min", 2, any, map, "NaN if either is"},
    {TileOp::pow, "pow", 2, number, map, "integers: a negative power of other than 1, -1 is 0"},
    {TileOp::atan2, "atan2", 2, floating, map, ""},
    {TileOp::next_after, "next_after", 2, floating, map, ""},
    {TileOp::bit_and, "and", 2, TileTypes::bits, map, ""},
    {TileOp::bit_or, "or", 2, TileTypes::bits, map, ""},
    {TileOp::bit_xor, "xor", 2, TileTypes::bits, map, ""},
    {TileOp::shl, "shl", 2, integer, map, "0 from the type's width on"},
    {TileOp::shr_arith, "shr_arith", 2, integer, map, "the sign from the type's width on"},
    {TileOp::shr_logical, "shr_logical", 2, integer, map, "0 from the type's width on"},
    {TileOp::eq, "eq", 2, any, compare, ""},
    {TileOp::ne, "ne", 2, any, compare, ""},
    {TileOp::lt, "lt", 2, any, compare, ""},
    {TileOp::le, "le", 2, any, compare, ""},
    {TileOp::gt, "gt", 2, any, compare, ""},
    {TileOp::ge, "ge", 2, any, compare, ""},
    {TileOp::select, "select", 3, any, TileClass::select, "predicate, if true, if false"},
    {TileOp::clamp, "clamp", 3, number, map, "low, value, high: min(max(value, low), high)"},
    {TileOp::neg, "neg", 1, number, map, ""},
    {TileOp::abs, "abs", 1, number, map, ""},
    {TileOp::sign, "sign", 1, number, map, "floats keep zeros and NaN"},
    {TileOp::bit_not, "not", 1, TileTypes::bits, map, ""},
    {TileOp::is_finite, "is_finite", 1, floating, test, ""},
    {TileOp::popcount, "popcount", 1, integer, map, ""},
    {TileOp::clz, "clz", 1, integer, map, "the type's width for 0"},
    {TileOp::round_even, "round_even", 1, floating, map, ""},
    {TileOp::round_away, "round_away", 1, floating, map, "halves away from zero"},
    {TileOp::floor, "floor", 1, floating, map, ""},
    {TileOp::ceil, "ceil", 1, floating, map, ""},
    {TileOp::sqrt, "sqrt", 1, floating, map, ""},
    {TileOp::rsqrt, "rsqrt", 1, floating, map, ""},
    {TileOp::cbrt, "cbrt", 1, floating, map, ""},
    {TileOp::exp, "exp", 1, floating, map, ""},
    {TileOp::expm1, "expm1", 1, floating, map, ""},
    {TileOp::log, "log", 1, floating, map, ""},
    {TileOp::log1p, "log1p", 1, floating, map, ""},
    {TileOp::logistic, "logistic", 1, floating, map, ""},
    {TileOp::tanh, "tanh", 1, floating, map, ""},
    {TileOp::sin, "sin", 1, floating, map, ""},
    {TileOp::cos, "cos", 1, floating, map, ""},
    {TileOp::tan, "tan", 1, floating, map, ""},
    {TileOp::asin, "asin", 1, floating, map, ""},
    {TileOp::acos, "acos", 1, floating, map, ""},
    {TileOp::atan, "atan", 1, floating, map, ""},
    {TileOp::sinh, "sinh", 1, floating, map, ""},
    {TileOp::cosh, "cosh", 1, floating, map, ""},
    {TileOp::asinh, "asinh", 1, floating, map, ""},
    {TileOp::acosh, "acosh", 1, floating, map, ""},
    {TileOp::atanh, "atanh", 1, floating, map, ""},
    {TileOp::erf, "erf", 1, floating, map, ""},
    {TileOp::erfc, "erfc", 1, floating, map, ""},
    {TileOp::erf_inv, "erf_inv", 1, floating, map, ""},
    {TileOp::lgamma, "lgamma", 1, floating, map, ""},
    {TileOp::digamma, "digamma", 1, floating, map, ""},
    {TileOp::convert, "convert", 1, any, cast, "to integers: toward zero, saturating, NaN to 0; among them: wraps"},
    {TileOp::bit_cast, "bit_cast", 1, number, cast, "between types of one width"},
    {TileOp::round_to, "round_to", 1, floating, map, "to a narrower float format, nearest even"},
    {TileOp::reduce_precision, "reduce_precision", 1, floating, map, "to so many exponent and mantissa bits"},
    {TileOp::reduce_sum, "reduce_sum", 1, number, reduce, "0 of nothing"},
    {TileOp::reduce_prod, "reduce_prod", 1, number, reduce, "1 of nothing"},
    {TileOp::reduce_max, "reduce_max", 1, any, reduce, "the least value of nothing (-inf)"},
    {TileOp::reduce_min, "reduce_min", 1, any, reduce, "the greatest value of nothing (inf)"},
    {TileOp::reduce_and, "reduce_and", 1, TileTypes::bits, reduce, "all ones of nothing"},
    {TileOp::reduce_or, "reduce_or", 1, TileTypes::bits, reduce, "0 of nothing"},
    {TileOp::reduce_xor, "reduce_xor", 1, TileTypes::bits, reduce, "0 of nothing"},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (size_t(kRows[i].op) != i) return false;
  }
  return std::size(kRows) == size_t(TileOp::count);
}
static_assert(in_order(), "kRows has one row per TileOp, in its order");

std::string value_text(const TileInsn& i) {
  if (i.type == Dtype::f32) return cat(double(std::bit_cast<float>(uint32_t(i.bits))));
  if (i.type == Dtype::f64) return cat(std::bit_cast<double>(i.bits));
  if (trine::row(i.type).kind == DtypeKind::unsigned_int) return cat(i.bits);
  return cat(int64_t(i.bits));
}

std::string detail(const TileInsn& i) {
  switch (i.op) {
    case TileOp::load:
    case TileOp::store:
      return cat(" @", i.at);
    case TileOp::pick:
      return cat(" @", i.at, " up to ", i.bits);
    case TileOp::constant:
      return cat(" ", value_text(i));
    case TileOp::iota:
      return cat(" dim ", i.at);
    case TileOp::round_to:
      return cat(" ", trine::row(Dtype(i.at)).name);
    case TileOp::reduce_precision:
      return cat(" e", i.bits >> 8 & 255, "m", i.bits & 255);
    default:
      return "";
  }
}

}  // namespace

const TileOpRow& row(TileOp op) { return kRows[size_t(op)]; }

std::string text(const TileProgram& p) {
  std::string out = "dims";
  for (const TileDim& d : p.dims) out += cat(d.inner ? " inner " : " row ", d.size);
  out += "\n";
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const TileOperand& o = p.operands[i];
    out += cat("@", i, o.output ? " out " : " in ", trine::row(o.dtype).name, "[", o.elements, "] ", o.offset);
    for (int64_t s : o.strides) out += cat(s < 0 ? " - " : " + ", s < 0 ? -s : s);
    if (o.beside >= 0) out += cat(" beside @", o.beside);
    out += "\n";
  }
  int stage = -1;
  for (size_t i = 0; i < p.insns.size(); ++i) {
    const TileInsn& n = p.insns[i];
    for (; stage < int(n.stage); ++stage) out += p.stages[size_t(stage + 1)] == TileStage::each ? "each\n" : "once\n";
    out += n.op == TileOp::store ? "  store" : cat("  %", i, " = ", row(n.op).name, " ", trine::row(n.type).name);
    out += detail(n);
    for (TileValue v : n.in) {
      if (v != kNoValue) out += cat(" %", v);
    }
    out += "\n";
  }
  return out;
}

uint32_t TileBuilder::dim(int64_t size, bool inner) {
  program_.dims.push_back({size, inner});
  return uint32_t(program_.dims.size() - 1);
}

uint32_t TileBuilder::input(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset) {
  program_.operands.push_back({dtype, false, elements, offset, std::move(strides)});
  return uint32_t(program_.operands.size() - 1);
}

uint32_t TileBuilder::output(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset) {
  program_.operands.push_back({dtype, true, elements, offset, std::move(strides)});
  return uint32_t(program_.operands.size() - 1);
}

TileValue TileBuilder::push(TileInsn insn) {
  if (program_.stages.empty()) each();
  insn.stage = uint16_t(program_.stages.size() - 1);
  program_.insns.push_back(insn);
  return TileValue(program_.insns.size() - 1);
}

TileValue TileBuilder::load(uint32_t operand) {
  return push({.op = TileOp::load, .type = tile_value_type(program_.operands[operand].dtype), .at = operand});
}

TileValue TileBuilder::pick(uint32_t operand, TileValue index, int64_t most) {
  return push({.op = TileOp::pick,
               .type = tile_value_type(program_.operands[operand].dtype),
               .in = {index, kNoValue, kNoValue},
               .at = operand,
               .bits = uint64_t(most)});
}

void TileBuilder::store(uint32_t operand, TileValue value) {
  push({.op = TileOp::store, .type = type_of(value), .in = {value, kNoValue, kNoValue}, .at = operand});
}

TileValue TileBuilder::constant_bits(Dtype type, uint64_t bits) {
  return push({.op = TileOp::constant, .type = type, .bits = bits});
}

TileValue TileBuilder::constant(Dtype type, double value) {
  if (type == Dtype::f32) return constant_bits(type, std::bit_cast<uint32_t>(float(value)));
  if (type == Dtype::f64) return constant_bits(type, std::bit_cast<uint64_t>(value));
  return constant_bits(type, value < 0 ? uint64_t(int64_t(value)) : uint64_t(value));
}

TileValue TileBuilder::iota(Dtype type, uint32_t dim) { return push({.op = TileOp::iota, .type = type, .at = dim}); }

TileValue TileBuilder::unary(TileOp op, TileValue a) {
  Dtype type = row(op).kind == TileClass::test ? Dtype::boolean : type_of(a);
  return push({.op = op, .type = type, .in = {a, kNoValue, kNoValue}});
}

TileValue TileBuilder::binary(TileOp op, TileValue a, TileValue b) {
  Dtype type = row(op).kind == TileClass::compare ? Dtype::boolean : type_of(a);
  return push({.op = op, .type = type, .in = {a, b, kNoValue}});
}

TileValue TileBuilder::ternary(TileOp op, TileValue a, TileValue b, TileValue c) {
  return push({.op = op, .type = type_of(b), .in = {a, b, c}});
}

TileValue TileBuilder::convert(TileValue a, Dtype type) {
  return push({.op = TileOp::convert, .type = type, .in = {a, kNoValue, kNoValue}});
}

TileValue TileBuilder::bit_cast(TileValue a, Dtype type) {
  return push({.op = TileOp::bit_cast, .type = type, .in = {a, kNoValue, kNoValue}});
}

TileValue TileBuilder::round_to(TileValue a, Dtype format) {
  return push({.op = TileOp::round_to, .type = type_of(a), .in = {a, kNoValue, kNoValue}, .at = uint32_t(format)});
}

TileValue TileBuilder::reduce_precision(TileValue a, int exponent_bits, int mantissa_bits) {
  return push({.op = TileOp::reduce_precision,
               .type = type_of(a),
               .in = {a, kNoValue, kNoValue},
               .bits = uint64_t(exponent_bits) << 8 | uint64_t(mantissa_bits)});
}

}  // namespace trine::arch

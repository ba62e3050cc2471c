// The table of loop ops, the text of programs and the builder. What makes a program legal is in loop_verify.cpp.
#include "arch/plan/loop.h"

#include <bit>

#include "base/text.h"

namespace trine::arch {

namespace {

using enum LoopOpTypes;
using enum LoopOpClass;

constexpr LoopOpRow kRows[] = {
    {LoopOp::load, "load", 0, any, source, "the operand's element; narrow floats widen to f32"},
    {LoopOp::store, "store", 1, any, LoopOpClass::store, "rounds narrow floats to nearest even, wraps integers"},
    {LoopOp::constant, "constant", 0, any, source, ""},
    {LoopOp::iota, "iota", 0, number, source, "index along a dim"},
    {LoopOp::pick, "pick", 1, any, LoopOpClass::pick,
     "the operand's element that lies an index further, held to 0 up to the largest"},
    {LoopOp::add, "add", 2, number, map, ""},
    {LoopOp::sub, "sub", 2, number, map, ""},
    {LoopOp::mul, "mul", 2, number, map, ""},
    {LoopOp::div, "div", 2, number, map, "integers: x/0 is all ones, min/-1 is min"},
    {LoopOp::rem, "rem", 2, number, map, "sign of the dividend; integers: x%0 is x"},
    {LoopOp::max, "max", 2, any, map, "NaN if either is"},
    {LoopOp::min, "min", 2, any, map, "NaN if either is"},
    {LoopOp::pow, "pow", 2, number, map, "integers: a negative power of other than 1, -1 is 0"},
    {LoopOp::atan2, "atan2", 2, floating, map, ""},
    {LoopOp::next_after, "next_after", 2, floating, map, ""},
    {LoopOp::bit_and, "and", 2, LoopOpTypes::bits, map, ""},
    {LoopOp::bit_or, "or", 2, LoopOpTypes::bits, map, ""},
    {LoopOp::bit_xor, "xor", 2, LoopOpTypes::bits, map, ""},
    {LoopOp::shl, "shl", 2, integer, map, "0 from the type's width on"},
    {LoopOp::shr_arith, "shr_arith", 2, integer, map, "the sign from the type's width on"},
    {LoopOp::shr_logical, "shr_logical", 2, integer, map, "0 from the type's width on"},
    {LoopOp::eq, "eq", 2, any, compare, ""},
    {LoopOp::ne, "ne", 2, any, compare, ""},
    {LoopOp::lt, "lt", 2, any, compare, ""},
    {LoopOp::le, "le", 2, any, compare, ""},
    {LoopOp::gt, "gt", 2, any, compare, ""},
    {LoopOp::ge, "ge", 2, any, compare, ""},
    {LoopOp::select, "select", 3, any, LoopOpClass::select, "predicate, if true, if false"},
    {LoopOp::clamp, "clamp", 3, number, map, "low, value, high: min(max(value, low), high)"},
    {LoopOp::neg, "neg", 1, number, map, ""},
    {LoopOp::abs, "abs", 1, number, map, ""},
    {LoopOp::sign, "sign", 1, number, map, "floats keep zeros and NaN"},
    {LoopOp::bit_not, "not", 1, LoopOpTypes::bits, map, ""},
    {LoopOp::is_finite, "is_finite", 1, floating, test, ""},
    {LoopOp::popcount, "popcount", 1, integer, map, ""},
    {LoopOp::clz, "clz", 1, integer, map, "the type's width for 0"},
    {LoopOp::round_even, "round_even", 1, floating, map, ""},
    {LoopOp::round_away, "round_away", 1, floating, map, "halves away from zero"},
    {LoopOp::floor, "floor", 1, floating, map, ""},
    {LoopOp::ceil, "ceil", 1, floating, map, ""},
    {LoopOp::sqrt, "sqrt", 1, floating, map, ""},
    {LoopOp::rsqrt, "rsqrt", 1, floating, map, ""},
    {LoopOp::cbrt, "cbrt", 1, floating, map, ""},
    {LoopOp::exp, "exp", 1, floating, map, ""},
    {LoopOp::expm1, "expm1", 1, floating, map, ""},
    {LoopOp::log, "log", 1, floating, map, ""},
    {LoopOp::log1p, "log1p", 1, floating, map, ""},
    {LoopOp::logistic, "logistic", 1, floating, map, ""},
    {LoopOp::tanh, "tanh", 1, floating, map, ""},
    {LoopOp::sin, "sin", 1, floating, map, ""},
    {LoopOp::cos, "cos", 1, floating, map, ""},
    {LoopOp::tan, "tan", 1, floating, map, ""},
    {LoopOp::asin, "asin", 1, floating, map, ""},
    {LoopOp::acos, "acos", 1, floating, map, ""},
    {LoopOp::atan, "atan", 1, floating, map, ""},
    {LoopOp::sinh, "sinh", 1, floating, map, ""},
    {LoopOp::cosh, "cosh", 1, floating, map, ""},
    {LoopOp::asinh, "asinh", 1, floating, map, ""},
    {LoopOp::acosh, "acosh", 1, floating, map, ""},
    {LoopOp::atanh, "atanh", 1, floating, map, ""},
    {LoopOp::erf, "erf", 1, floating, map, ""},
    {LoopOp::erfc, "erfc", 1, floating, map, ""},
    {LoopOp::erf_inv, "erf_inv", 1, floating, map, ""},
    {LoopOp::lgamma, "lgamma", 1, floating, map, ""},
    {LoopOp::digamma, "digamma", 1, floating, map, ""},
    {LoopOp::convert, "convert", 1, any, cast, "to integers: toward zero, saturating, NaN to 0; among them: wraps"},
    {LoopOp::bit_cast, "bit_cast", 1, number, cast, "between types of one width"},
    {LoopOp::round_to, "round_to", 1, floating, map, "to a narrower float format, nearest even"},
    {LoopOp::reduce_precision, "reduce_precision", 1, floating, map, "to so many exponent and mantissa bits"},
    {LoopOp::reduce_sum, "reduce_sum", 1, number, reduce, "0 of nothing"},
    {LoopOp::reduce_prod, "reduce_prod", 1, number, reduce, "1 of nothing"},
    {LoopOp::reduce_max, "reduce_max", 1, any, reduce, "the least value of nothing (-inf)"},
    {LoopOp::reduce_min, "reduce_min", 1, any, reduce, "the greatest value of nothing (inf)"},
    {LoopOp::reduce_and, "reduce_and", 1, LoopOpTypes::bits, reduce, "all ones of nothing"},
    {LoopOp::reduce_or, "reduce_or", 1, LoopOpTypes::bits, reduce, "0 of nothing"},
    {LoopOp::reduce_xor, "reduce_xor", 1, LoopOpTypes::bits, reduce, "0 of nothing"},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (size_t(kRows[i].op) != i) return false;
  }
  return std::size(kRows) == size_t(LoopOp::count);
}
static_assert(in_order(), "kRows has one row per TileOp, in its order");

std::string value_text(const LoopInsn& i) {
  if (i.type == Dtype::f32) return cat(double(std::bit_cast<float>(uint32_t(i.bits))));
  if (i.type == Dtype::f64) return cat(std::bit_cast<double>(i.bits));
  if (trine::row(i.type).kind == DtypeKind::unsigned_int) return cat(i.bits);
  return cat(int64_t(i.bits));
}

std::string detail(const LoopInsn& i) {
  switch (i.op) {
    case LoopOp::load:
    case LoopOp::store:
      return cat(" @", i.at);
    case LoopOp::pick:
      return cat(" @", i.at, " up to ", i.bits);
    case LoopOp::constant:
      return cat(" ", value_text(i));
    case LoopOp::iota:
      return cat(" dim ", i.at);
    case LoopOp::round_to:
      return cat(" ", trine::row(Dtype(i.at)).name);
    case LoopOp::reduce_precision:
      return cat(" e", i.bits >> 8 & 255, "m", i.bits & 255);
    default:
      return "";
  }
}

}  // namespace

const LoopOpRow& row(LoopOp op) { return kRows[size_t(op)]; }

std::string text(const LoopProgram& p) {
  std::string out = "dims";
  for (const LoopDim& d : p.dims) out += cat(d.inner ? " inner " : " row ", d.size);
  out += "\n";
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const LoopOperand& o = p.operands[i];
    out += cat("@", i, o.output ? " out " : " in ", trine::row(o.dtype).name, "[", o.elements, "] ", o.offset);
    for (int64_t s : o.strides) out += cat(s < 0 ? " - " : " + ", s < 0 ? -s : s);
    if (o.beside >= 0) out += cat(" beside @", o.beside);
    out += "\n";
  }
  int stage = -1;
  for (size_t i = 0; i < p.insns.size(); ++i) {
    const LoopInsn& n = p.insns[i];
    for (; stage < int(n.stage); ++stage) out += p.stages[size_t(stage + 1)] == LoopStage::each ? "each\n" : "once\n";
    out += n.op == LoopOp::store ? "  store" : cat("  %", i, " = ", row(n.op).name, " ", trine::row(n.type).name);
    out += detail(n);
    for (LoopValue v : n.in) {
      if (v != kNoValue) out += cat(" %", v);
    }
    out += "\n";
  }
  return out;
}

uint32_t LoopBuilder::dim(int64_t size, bool inner) {
  program_.dims.push_back({size, inner});
  return uint32_t(program_.dims.size() - 1);
}

uint32_t LoopBuilder::input(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset) {
  program_.operands.push_back({dtype, false, elements, offset, std::move(strides)});
  return uint32_t(program_.operands.size() - 1);
}

uint32_t LoopBuilder::output(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset) {
  program_.operands.push_back({dtype, true, elements, offset, std::move(strides)});
  return uint32_t(program_.operands.size() - 1);
}

LoopValue LoopBuilder::push(LoopInsn insn) {
  if (program_.stages.empty()) each();
  insn.stage = uint16_t(program_.stages.size() - 1);
  program_.insns.push_back(insn);
  return LoopValue(program_.insns.size() - 1);
}

LoopValue LoopBuilder::load(uint32_t operand) {
  return push({.op = LoopOp::load, .type = loop_value_type(program_.operands[operand].dtype), .at = operand});
}

LoopValue LoopBuilder::pick(uint32_t operand, LoopValue index, int64_t most) {
  return push({.op = LoopOp::pick,
               .type = loop_value_type(program_.operands[operand].dtype),
               .in = {index, kNoValue, kNoValue},
               .at = operand,
               .bits = uint64_t(most)});
}

void LoopBuilder::store(uint32_t operand, LoopValue value) {
  push({.op = LoopOp::store, .type = type_of(value), .in = {value, kNoValue, kNoValue}, .at = operand});
}

LoopValue LoopBuilder::constant_bits(Dtype type, uint64_t bits) {
  return push({.op = LoopOp::constant, .type = type, .bits = bits});
}

LoopValue LoopBuilder::constant(Dtype type, double value) {
  if (type == Dtype::f32) return constant_bits(type, std::bit_cast<uint32_t>(float(value)));
  if (type == Dtype::f64) return constant_bits(type, std::bit_cast<uint64_t>(value));
  return constant_bits(type, value < 0 ? uint64_t(int64_t(value)) : uint64_t(value));
}

LoopValue LoopBuilder::iota(Dtype type, uint32_t dim) { return push({.op = LoopOp::iota, .type = type, .at = dim}); }

LoopValue LoopBuilder::unary(LoopOp op, LoopValue a) {
  Dtype type = row(op).kind == LoopOpClass::test ? Dtype::boolean : type_of(a);
  return push({.op = op, .type = type, .in = {a, kNoValue, kNoValue}});
}

LoopValue LoopBuilder::binary(LoopOp op, LoopValue a, LoopValue b) {
  Dtype type = row(op).kind == LoopOpClass::compare ? Dtype::boolean : type_of(a);
  return push({.op = op, .type = type, .in = {a, b, kNoValue}});
}

LoopValue LoopBuilder::ternary(LoopOp op, LoopValue a, LoopValue b, LoopValue c) {
  return push({.op = op, .type = type_of(b), .in = {a, b, c}});
}

LoopValue LoopBuilder::convert(LoopValue a, Dtype type) {
  return push({.op = LoopOp::convert, .type = type, .in = {a, kNoValue, kNoValue}});
}

LoopValue LoopBuilder::bit_cast(LoopValue a, Dtype type) {
  return push({.op = LoopOp::bit_cast, .type = type, .in = {a, kNoValue, kNoValue}});
}

LoopValue LoopBuilder::round_to(LoopValue a, Dtype format) {
  return push({.op = LoopOp::round_to, .type = type_of(a), .in = {a, kNoValue, kNoValue}, .at = uint32_t(format)});
}

LoopValue LoopBuilder::reduce_precision(LoopValue a, int exponent_bits, int mantissa_bits) {
  return push({.op = LoopOp::reduce_precision,
               .type = type_of(a),
               .in = {a, kNoValue, kNoValue},
               .bits = uint64_t(exponent_bits) << 8 | uint64_t(mantissa_bits)});
}

}  // namespace trine::arch

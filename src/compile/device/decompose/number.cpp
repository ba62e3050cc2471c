// Special functions by polynomials, and 64-bit integers that are only counted with: JAX numbers the elements of random
// arrays so. What is taken of them in 32 bits is computed in 32 bits; see decompose.h.
#include <cmath>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "compile/graph/range.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/internal.h"

namespace trine::compile::device {

using ir::Value;

namespace {

constexpr int kDepth = 16;  // ops looked through

bool is_wide(Dtype d) { return d == Dtype::u64 || d == Dtype::s64; }

std::optional<uint64_t> word_of(const Value& v) {
  const Tensor* const t = is_wide(v.type().dtype) ? ir::splat_of(v) : nullptr;
  return t ? std::optional(*t->view().as<const uint64_t>()) : std::nullopt;
}

// The low 32 bits, or null where they are not found.
Value low_bits(ops::Make& make, const Value& v, int depth) {
  const ir::Node& node = *v.node;
  const Dims& dims = v.type().dims;
  if (const auto number = word_of(v)) return make.number(Dtype::u32, double(uint32_t(*number)), dims);
  if (depth == 0) return {};
  if (node.op == op::iota) return make.iota(Dtype::u32, dims, node.attrs.integer("iota_dimension"));
  if (node.op == op::shift_right_logical) {
    const auto by = word_of(node.inputs[1]);
    const Range x = range_of(node.inputs[0]);
    const bool all_gone = by && *by >= 32 && x.low >= 0 && x.high < 0x1p32;
    return all_gone ? make.number(Dtype::u32, 0, dims) : Value{};
  }
  if (node.op == op::convert && is_integer(node.inputs[0].type().dtype)) {
    if (is_wide(node.inputs[0].type().dtype)) return low_bits(make, node.inputs[0], depth - 1);
    return make.convert(node.inputs[0], Dtype::u32);
  }
  const bool moves = node.op == op::broadcast_in_dim || node.op == op::reshape;
  const bool counts = node.op == op::add || node.op == op::multiply || node.op == op::subtract || node.op == op::and_ ||
                      node.op == op::or_ || node.op == op::xor_;
  if (!moves && !counts) return {};
  ops::Values inputs;
  for (const Value& in : node.inputs) {
    inputs.push_back(low_bits(make, in, depth - 1));
    if (!inputs.back()) return {};
  }
  return make.op(node.op, inputs, node.attrs, {ir::tensor_type(Dtype::u32, dims)});
}

// Is every element a whole number, or none at all?
bool is_whole(const Value& v, int depth) {
  const ir::Node& n = *v.node;
  if (const auto number = ir::splat(v)) return *number == std::floor(*number);
  if (n.op == op::round_nearest_even || n.op == op::floor || n.op == op::ceil) return true;
  if (n.op == op::convert && !is_floating(n.inputs[0].type().dtype)) return true;
  if (depth == 0) return false;
  const auto is_whole_in = [&](size_t i) { return is_whole(n.inputs[i], depth - 1); };
  if (n.op == op::broadcast_in_dim || n.op == op::reshape || n.op == op::negate || n.op == op::abs)
    return is_whole_in(0);
  if (n.op == op::minimum || n.op == op::maximum) return is_whole_in(0) && is_whole_in(1);
  return n.op == op::clamp && is_whole_in(0) && is_whole_in(1) && is_whole_in(2);
}

// The same before it is rounded to the nearest, where limits that are whole are all that follows.
Value before_rounding(ops::Make& make, const Value& v, int depth) {
  const ir::Node& n = *v.node;
  if (n.op == op::round_nearest_even) return n.inputs[0];
  if (depth == 0 || (n.op != op::minimum && n.op != op::maximum && n.op != op::clamp)) return v;
  ops::Values inputs;
  for (const Value& in : n.inputs) inputs.push_back(before_rounding(make, in, depth - 1));
  return make.op(n.op, inputs, n.attrs, n.types);
}

}  // namespace

// Engines round to the nearest as they write whole numbers: what is whole, or is to be rounded so, needs no more.
ir::Replacement whole_as_written(ir::Graph& graph, const ir::Node& node) {
  const Value& x = node.inputs[0];
  const Dtype from = x.type().dtype, into = node.types[0].dtype;
  if (!is_floating(from) || !is_integer(into) || node.attrs.flag(ops::kNearest)) return {};
  if (!device_dtype(from) || !device_dtype(into) || bits(into) > 32 || !is_whole(x, kDepth)) return {};
  ops::Make make(graph, node.where);
  return {
      make.own(op::convert, {before_rounding(make, x, kDepth)}, node.types[0], {{std::string(ops::kNearest), true}})};
}

ir::Replacement count_in_words(ir::Graph& graph, const ir::Node& node) {
  const Dtype to = node.types[0].dtype;
  if (!is_wide(node.inputs[0].type().dtype) || !is_integer(to) || is_wide(to)) return {};
  ops::Make make(graph, node.where);
  const Value low = low_bits(make, node.inputs[0], kDepth);
  return low ? ir::Replacement{make.convert(low, to)} : ir::Replacement{};
}

// M. Giles, "Approximating the erfinv function", 2012: single precision, as XLA computes it.
ir::Replacement erf_inv_by_polynomials(ir::Graph& graph, const ir::Node& node) {
  constexpr double kNear[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                              -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double kFar[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                             -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const Value& given = node.inputs[0];
  if (!is_floating(given.type().dtype) || !device_dtype(given.type().dtype)) return {};
  ops::Make make(graph, node.where);
  const Value x = make.convert(given, Dtype::f32);
  const Dims& dims = x.type().dims;
  const auto number = [&](double v) { return make.number(Dtype::f32, v, dims); };
  const Value w =
      make.op(op::negate, {make.op(op::log_plus_one, {make.op(op::negate, {make.op(op::multiply, {x, x})})})});
  const Value is_near = make.compare(w, number(5), "LT");
  const Value root = make.op(op::sqrt, {make.op(op::maximum, {w, number(0)})});
  const Value at =
      make.op(op::select, {is_near, make.op(op::subtract, {w, number(2.5)}), make.op(op::subtract, {root, number(3)})});
  Value sum = make.op(op::select, {is_near, number(kNear[0]), number(kFar[0])});
  for (size_t i = 1; i < std::size(kNear); ++i)
    sum = make.op(
        op::add, {make.op(op::select, {is_near, number(kNear[i]), number(kFar[i])}), make.op(op::multiply, {sum, at})});
  const Value inside = make.op(op::multiply, {sum, x});
  const Value edge = make.op(op::multiply, {x, number(HUGE_VAL)});
  const Value one = make.compare(make.op(op::abs, {x}), number(1), "EQ");
  return {make.convert(make.op(op::select, {one, edge, inside}), given.type().dtype)};
}

}  // namespace trine::compile::device

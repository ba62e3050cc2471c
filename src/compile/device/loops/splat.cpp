// Constants of one value; see splat.h.
#include "compile/device/loops/splat.h"

#include <algorithm>
#include <cmath>

#include "compile/graph/position_mask.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

bool splat(const ir::Node& node, double& out) {
  const auto number = constant_splat(node.result());
  if (number) out = *number;
  return number.has_value();
}

namespace {

constexpr int kDepth = 12;

std::optional<double> bounded(const ir::Value& v, int depth);

// Of something that is at least a positive number: that number.
std::optional<double> at_least(const ir::Value& v, int depth) {
  const ir::Node& n = *v.node;
  double number = 0;
  if (splat(n, number)) return number > 0 ? std::optional(number) : std::nullopt;
  if (depth == 0) return std::nullopt;
  if (n.op == op::broadcast_in_dim || n.op == op::reshape || n.op == op::convert)
    return at_least(n.inputs[0], depth - 1);
  if (n.op != op::maximum) return std::nullopt;
  const auto a = at_least(n.inputs[0], depth - 1), b = at_least(n.inputs[1], depth - 1);
  if (!a && !b) return std::nullopt;
  return std::max(a.value_or(0), b.value_or(0));
}

std::optional<double> bounded_by(const ir::Node& n, int depth) {
  const auto of = [&](size_t i) { return bounded(n.inputs[i], depth - 1); };
  if (n.op == op::broadcast_in_dim || n.op == op::reshape || n.op == op::negate || n.op == op::abs) return of(0);
  if (n.op == op::select) {
    const auto a = of(1), b = of(2);
    return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
  }
  if (n.op == op::convert) {
    const Dtype from = n.inputs[0].type().dtype;
    if (from == Dtype::boolean) return 1;
    return is_integer(from) ? std::optional(std::ldexp(1.0, bits(from))) : of(0);
  }
  if (n.op != op::multiply && n.op != op::divide) return std::nullopt;
  const auto a = of(0), b = n.op == op::multiply ? of(1) : at_least(n.inputs[1], depth - 1);
  if (!a || !b) return std::nullopt;
  return n.op == op::multiply ? *a * *b : *a / *b;
}

std::optional<double> bounded(const ir::Value& v, int depth) {
  double number = 0;
  if (splat(*v.node, number)) return std::isfinite(number) ? std::optional(std::fabs(number)) : std::nullopt;
  return depth ? bounded_by(*v.node, depth) : std::nullopt;
}

}  // namespace

std::optional<double> bound_of(const ir::Value& value) { return bounded(value, kDepth); }

}  // namespace trine::compile::device

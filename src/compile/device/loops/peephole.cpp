// Products are flattened into their factors, so that the order in which a program multiplies does not matter.
#include "compile/device/loops/peephole.h"

#include <cmath>
#include <vector>

#include "compile/graph/index_map.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

using Members = std::unordered_set<const ir::Node*>;

// A number times values: what a chain of multiplications, divisions by numbers and negations comes to.
struct Product {
  double number = 1;
  std::vector<ir::Value> values = {};
};

void flatten(const ir::Value& v, const Members& members, Product& out, int depth = 0) {
  if (const auto number = ir::splat(v)) {
    out.number *= *number;
  } else if (v.node->op == op::multiply && depth < 6 && members.count(v.node)) {
    for (const ir::Value& in : v.node->inputs) flatten(in, members, out, depth + 1);
  } else if (v.node->op == op::divide && members.count(v.node) && ir::splat(v.node->inputs[1])) {
    out.number /= *ir::splat(v.node->inputs[1]);
    flatten(v.node->inputs[0], members, out, depth + 1);
  } else if (v.node->op == op::negate && members.count(v.node)) {
    out.number = -out.number;
    flatten(v.node->inputs[0], members, out, depth + 1);
  } else {
    out.values.push_back(v);
  }
}

// Numbers as a program in bf16 has them.
bool near(double a, double b) { return std::fabs(a - b) <= 0x1p-8 * std::fabs(b); }

// v = 1 + inner, or nothing.
std::optional<ir::Value> one_plus(const ir::Value& v, const Members& members) {
  if (v.node->op != op::add || !members.count(v.node)) return std::nullopt;
  for (size_t side : {0, 1})
    if (ir::splat(v.node->inputs[side]) == 1.0) return v.node->inputs[1 - side];
  return std::nullopt;
}

// Is v = number · x^power?
bool is_monomial(const ir::Value& v, const ir::Value& x, double number, size_t power, const Members& members) {
  Product p;
  flatten(v, members, p);
  size_t have = 0;
  for (const ir::Value& f : p.values) {
    if (f == x) {
      ++have;
      continue;
    }
    // x*x, x^3 and their like as one node
    const auto power_of = f.node->op == op::square  ? std::optional(2.0)
                          : f.node->op == op::power ? ir::splat(f.node->inputs[1])
                                                    : std::nullopt;
    if (!power_of || f.node->inputs[0] != x) return false;
    have += size_t(*power_of);
  }
  return have == power && near(p.number, number);
}

// tanh's argument in gelu: c·(x + 0.044715·x³), as written.
bool is_tanh_argument(const ir::Value& v, const ir::Value& x, const Members& members) {
  Product p;
  flatten(v, members, p);
  if (p.values.size() != 1 || !near(p.number, 0.7978845608)) return false;
  const ir::Value sum = p.values[0];
  if (sum.node->op != op::add || !members.count(sum.node)) return false;
  for (int side : {0, 1})
    if (sum.node->inputs[size_t(side)] == x && is_monomial(sum.node->inputs[size_t(1 - side)], x, 0.044715, 3, members))
      return true;
  return false;
}

}  // namespace

std::optional<Activated> match_activation(const ir::Node& node, const Members& members) {
  if (node.op != op::multiply) return std::nullopt;
  Product p;
  flatten(node.result(), members, p);
  if (p.values.size() != 2) return std::nullopt;
  for (int side : {0, 1}) {
    const ir::Value x = p.values[size_t(side)], f = p.values[size_t(1 - side)];
    if (f.node->op == op::logistic && f.node->inputs[0] == x && p.number == 1 && members.count(f.node))
      return Activated{"silu", x};
    const bool half = near(p.number, 0.5);
    const auto inner = one_plus(f, members);
    if (half && inner && members.count(inner->node)) {
      if (inner->node->op == op::erf && is_monomial(inner->node->inputs[0], x, std::sqrt(0.5), 1, members))
        return Activated{"gelu", x};
      if (inner->node->op == op::tanh && is_tanh_argument(inner->node->inputs[0], x, members))
        return Activated{"gelu_apprx_tanh", x};
    }
    // 0.5·x·erfc(-x/√2)
    if (half && f.node->op == op::erfc && members.count(f.node) &&
        is_monomial(f.node->inputs[0], x, -std::sqrt(0.5), 1, members))
      return Activated{"gelu", x};
  }
  return std::nullopt;
}

std::optional<OneHot> match_one_hot(const ir::Node& node, const Members& members) {
  const ir::Node* compare = &node;
  OneHot out;
  if (node.op == op::select && ir::splat(node.inputs[2]) == 0.0) {
    compare = node.inputs[0].node;
    out.value = node.inputs[1];
    const Dtype d = node.types[0].dtype;
    if (!is_floating(d) || bytes(d) > 4) return std::nullopt;
  } else if (node.op == op::convert && is_floating(node.types[0].dtype)) {
    compare = node.inputs[0].node;
  }
  if (compare->op != op::compare || compare->attrs.text("direction") != "EQ" || !members.count(compare))
    return std::nullopt;
  for (size_t i : {0, 1}) {
    const ir::Node* counts = compare->inputs[i].node;
    while (members.count(counts) && view_kind(*counts) == ViewKind::whole) counts = counts->inputs[0].node;
    // In f32 no number beyond 2^24 is taken for one below.
    const bool exact = counts->op == op::iota && counts->types[0].dtype == Dtype::s32 && members.count(counts) &&
                       counts->types[0].dims[size_t(counts->attrs.integer("iota_dimension"))] <= 1 << 24;
    if (!exact) continue;
    out.count = compare->inputs[i], out.at = compare->inputs[1 - i];
    return out;
  }
  return std::nullopt;
}

}  // namespace trine::compile::device

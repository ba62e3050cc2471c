// An index is made of iota, constants, sums and products; what it is at most follows from the dims (range.h).
#include "compile/graph/narrow_index.h"

#include <cmath>

#include "compile/graph/range.h"
#include "ir/constant.h"
#include "ops/build.h"

#include "ir/op_ids.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

constexpr int kDepthMax = 8;  // of the arithmetic of an index

// A sum or product of iotas and of numbers that are not negative, in as many bits as it is.
bool is_index(const Value& v, int depth = 0) {
  const Node& n = *v.node;
  if (depth > kDepthMax || !is_integer(v.type().dtype)) return false;
  if (n.op == op::constant) return n.types[0].elements() == 1 && range_of(v).low >= 0;
  const bool adds = n.op == op::add || n.op == op::multiply;
  if (!adds && n.op != op::broadcast_in_dim && n.op != op::reshape) return n.op == op::iota;
  return is_index(n.inputs[0], depth + 1) && (!adds || is_index(n.inputs[1], depth + 1));
}

// The index made anew in 32 bits: the low ones of sums and products follow from the low ones of what they are of.
Value narrowed(Graph& graph, const Value& v, Dtype to) {
  const Node& n = *v.node;
  ir::Type type = ir::tensor_type(to, v.type().dims);
  if (n.op == op::constant) {
    Tensor value = Tensor::make(to, v.type().dims);
    *value.view().as<uint32_t>() = uint32_t(*ir::constant_of(v)->view().as<const uint64_t>());
    return graph.constant(std::move(value), n.where);
  }
  std::vector<Value> inputs;
  for (const Value& in : n.inputs) inputs.push_back(narrowed(graph, in, to));
  return graph.add1(n.op, std::move(inputs), std::move(type), n.attrs, n.where);
}

}  // namespace

Replacement narrow_indices(Graph& graph, const Node& node) {
  const Value& v = node.inputs[0];
  const Dtype to = node.types[0].dtype;
  if (!is_integer(to) || row(to).bits != 32 || row(v.type().dtype).bits != 64 || !is_index(v)) return {};
  return {narrowed(graph, v, to)};
}

Replacement shift_indices_out(Graph& graph, const Node& node) {
  const auto by = ir::splat(node.inputs[1]);
  const Range index = range_of(node.inputs[0]);
  if (!by || *by < 0 || index.low < 0 || (*by < 64 && index.high >= std::exp2(*by))) return {};
  return {ops::Make(graph, node.where).number(node.types[0].dtype, 0, node.types[0].dims)};
}

}  // namespace trine::compile

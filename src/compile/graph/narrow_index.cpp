// An index is made of iota, constants, sums and products; what it is at most follows from the dims.
#include "compile/graph/narrow_index.h"

#include <optional>

#include "ir/op_ids.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

constexpr int kDepthMax = 8;  // of the arithmetic of an index

std::optional<uint64_t> constant_bound(const Tensor& t) {
  if (element_count(t.dims) != 1) return {};
  int64_t value = -1;
  dispatch_element(t.dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (!E::kIsComplex && !E::kIsFloating) value = int64_t(E::load(*t.view().as<typename E::Storage>()));
  });
  if (value < 0) return {};
  return uint64_t(value);
}

// The most that any element is; nothing where it is no index, or may wrap.
std::optional<uint64_t> bound(const Value& v, int depth = 0) {
  const Node& n = *v.node;
  if (depth > kDepthMax || !is_integer(v.type().dtype)) return {};
  if (n.op == op::constant) return constant_bound(*n.attrs.tensor("value"));
  if (n.op == op::iota) {
    const int64_t size = v.type().dims[size_t(n.attrs.integer("iota_dimension"))];
    return uint64_t(size > 0 ? size - 1 : 0);
  }
  if (n.op == op::broadcast_in_dim || n.op == op::reshape) return bound(n.inputs[0], depth + 1);
  if (n.op != op::add && n.op != op::multiply) return {};
  const auto a = bound(n.inputs[0], depth + 1), b = a ? bound(n.inputs[1], depth + 1) : a;
  uint64_t out = 0;
  if (!b || (n.op == op::add ? __builtin_add_overflow(*a, *b, &out) : __builtin_mul_overflow(*a, *b, &out))) return {};
  const int bits = row(v.type().dtype).bits - (row(v.type().dtype).kind == DtypeKind::signed_int);
  if (bits < 64 && out >> bits) return {};
  return out;
}

// The index made anew in 32 bits; it has a bound.
Value narrowed(Graph& graph, const Value& v, Dtype to) {
  const Node& n = *v.node;
  ir::Type type = ir::tensor_type(to, v.type().dims);
  if (n.op == op::constant) {
    Tensor value = Tensor::make(to, v.type().dims);
    *value.view().as<uint32_t>() = uint32_t(*constant_bound(*n.attrs.tensor("value")));
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
  if (!is_integer(to) || row(to).bits != 32 || row(v.type().dtype).bits != 64 || !bound(v)) return {};
  return {narrowed(graph, v, to)};
}

Replacement shift_indices_out(Graph& graph, const Node& node) {
  const auto most = bound(node.inputs[0]), by = bound(node.inputs[1]);
  const Node* amount = node.inputs[1].node;
  while (amount->op == op::broadcast_in_dim) amount = amount->inputs[0].node;
  if (!most || !by || amount->op != op::constant || (*by < 64 && *most >> *by)) return {};
  const ir::Type& type = node.types[0];
  const Value zero = graph.constant(Tensor::make(type.dtype, {}), node.where);
  if (type.dims.empty()) return {zero};
  return {graph.add1(op::broadcast_in_dim, {zero}, type, {{"broadcast_dimensions", ir::Ints{}}}, node.where)};
}

}  // namespace trine::compile

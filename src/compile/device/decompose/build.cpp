// Nodes in one line each; see build.h.
#include "compile/device/decompose/build.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/number/scalar.h"
#include "base/text.h"
#include "compile/device/loops/map.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

using ir::Value;

Value Make::op(ir::OpId op, Values inputs, ir::Attrs attrs, std::vector<ir::Type> types,
               std::vector<ir::Region> regions) {
  auto made = ops::make(graph_, {.op = op,
                                 .inputs = std::move(inputs),
                                 .attrs = std::move(attrs),
                                 .regions = std::move(regions),
                                 .types = std::move(types),
                                 .where = where_});
  CHECK(made, made ? "" : made.error().message.c_str());
  return (*made)->result();
}

Value Make::number(Dtype dtype, double value, const Dims& dims) {
  const Value one = graph_.constant(scalar(dtype, value), where_);
  return dims.empty() ? one : broadcast(one, dims, {});
}

Value Make::lowest(Dtype dtype, bool highest) {
  if (dtype == Dtype::boolean) return number(dtype, highest);
  return number(dtype, highest ? HUGE_VAL : -HUGE_VAL);
}

Value Make::identity(std::string_view kind, Dtype dtype) {
  if (kind == "maximum") return lowest(dtype);
  if (kind == "minimum") return lowest(dtype, true);
  if (kind == "multiply") return number(dtype, 1);
  if (kind == "and") return number(dtype, row(dtype).kind == DtypeKind::signed_int ? -1 : HUGE_VAL);
  return number(dtype, 0);
}

Value Make::iota(Dtype dtype, const Dims& dims, int64_t dim) {
  return op(op::iota, {}, {{"iota_dimension", dim}}, {ir::tensor_type(dtype, dims)});
}
Value Make::cast(const Value& x, Dtype dtype) {
  if (x.type().dtype == dtype) return x;
  return op(op::convert, {x}, {}, {ir::tensor_type(dtype, x.type().dims)});
}
Value Make::bits(const Value& x, Dtype dtype) {
  if (x.type().dtype == dtype) return x;
  return op(op::bitcast_convert, {x}, {}, {ir::tensor_type(dtype, x.type().dims)});
}
Value Make::reshape(const Value& x, const Dims& dims) {
  if (x.type().dims == dims) return x;
  return op(op::reshape, {x}, {}, {ir::tensor_type(x.type().dtype, dims)});
}
Value Make::broadcast(const Value& x, const Dims& dims, const ir::Ints& to) {
  if (x.type().dims == dims) return x;
  return op(op::broadcast_in_dim, {x}, {{"broadcast_dimensions", to}}, {ir::tensor_type(x.type().dtype, dims)});
}
Value Make::transpose(const Value& x, const ir::Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return op(op::transpose, {x}, {{"permutation", permutation}});
}
Value Make::slice(const Value& x, const Dims& begin, const Dims& end, const Dims& step) {
  const Dims steps = step.empty() ? Dims(begin.size(), 1) : step;
  return op(op::slice, {x}, {{"start_indices", begin}, {"limit_indices", end}, {"strides", steps}});
}
Value Make::slice_dim(const Value& x, size_t dim, int64_t begin, int64_t end) {
  Dims from(x.type().dims.size(), 0), to = x.type().dims;
  from[dim] = begin, to[dim] = end;
  if (to == x.type().dims && begin == 0) return x;
  return slice(x, from, to);
}
Value Make::pad(const Value& x, const Value& fill, const Dims& low, const Dims& high, const Dims& inside) {
  const Dims none(low.size(), 0);
  if (low == none && high == none && (inside.empty() || inside == none)) return x;
  return op(
      op::pad, {x, fill},
      {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", inside.empty() ? none : inside}});
}
Value Make::compare(const Value& a, const Value& b, std::string_view direction) {
  return op(op::compare, {a, b}, {{"direction", std::string(direction)}});
}
Value Make::reduce(const Value& x, std::string_view kind, int64_t dim) {
  return op(op::reduce, {x, identity(kind, x.type().dtype)},
            {{"dimensions", ir::Ints{dim}}, {"kind", std::string(kind)}});
}

Values Make::inlined(const ir::Region& region, const Values& arguments, const Dims& dims) {
  std::unordered_map<const ir::Node*, std::vector<Value>> made;
  for (size_t i = 0; i < region.params.size(); ++i) made[region.params[i].node] = {arguments[i]};
  const auto around = [&](const Value& v) {
    const auto found = made.find(v.node);
    if (found != made.end()) return found->second[v.index];
    return v.type().dims == dims ? v : broadcast(v, dims, {});
  };
  for (const ir::Node* node : ir::body_of(region).nodes) {
    if (made.count(node)) continue;
    const ops::Op* const row = ops::find_op(node->op);
    const bool simple = row && (row->kind == ops::OpKind::elementwise || node->op == op::convert ||
                                node->op == op::select || node->op == op::compare || node->op == op::bitcast_convert ||
                                node->op == op::reshape || node->op == op::broadcast_in_dim);
    if (!simple || !node->regions.empty() || node->types.size() != 1 || !node->types[0].dims.empty()) return {};
    Values inputs;
    for (const Value& v : node->inputs) {
      if (!v.type().dims.empty()) return {};
      inputs.push_back(around(v));
    }
    if (node->op == op::reshape || node->op == op::broadcast_in_dim)
      made[node] = {inputs[0]};
    else
      made[node] = {op(node->op, inputs, node->attrs, {ir::tensor_type(node->types[0].dtype, dims)})};
  }
  Values out;
  for (const Value& v : region.results) out.push_back(around(v));
  return out;
}

std::vector<const ir::Node*> nodes_and_bodies(const ir::Graph& graph) {
  std::vector<const ir::Node*> nodes = graph.order();
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const ir::Region& region : nodes[i]->regions) {
      const auto inside = ir::body_of(region).nodes;
      nodes.insert(nodes.end(), inside.begin(), inside.end());
    }
  return nodes;
}

}  // namespace trine::compile::device

// Nodes that must be legal; see build.h.
#include "ops/build.h"

#include "ir/op_ids.h"

#include <unordered_map>

namespace trine::ops {

ir::Value Make::op(ir::OpId op, Values inputs, ir::Attrs attrs, std::vector<ir::Type> types,
                   std::vector<ir::Region> regions) {
  auto made = make(graph_, {.op = op,
                            .inputs = std::move(inputs),
                            .attrs = std::move(attrs),
                            .regions = std::move(regions),
                            .types = std::move(types),
                            .where = where_});
  CHECK(made, made ? "" : made.error().message.c_str());
  return (*made)->result();
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
    const Op* const row = find_op(node->op);
    const bool simple = row && (row->kind == OpKind::elementwise || node->op == op::convert || node->op == op::select ||
                                node->op == op::compare || node->op == op::bitcast_convert || node->op == op::reshape ||
                                node->op == op::broadcast_in_dim);
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

}  // namespace trine::ops

// One walk in order: a value is manual where one that it is made of is.
#include "compile/partition/manual.h"

#include <algorithm>

#include "ir/op_ids.h"

namespace trine::compile {

using ir::Node;
using ir::Value;

static bool has(const Atoms& atoms, int a) { return std::find(atoms.begin(), atoms.end(), a) != atoms.end(); }

const Manual& ManualParts::of(const Value& value) const {
  static const Manual kNone;
  const auto found = parts_.find(value);
  return found == parts_.end() ? kNone : found->second;
}

Manual ManualParts::of(const Node& node) const {
  Manual out;
  const auto add = [&](const Value& v) {
    const Manual& one = of(v);
    out.is_manual = out.is_manual || one.is_manual;
    for (int a : one.axes)
      if (!has(out.axes, a)) out.axes.push_back(a);
  };
  for (const Value& v : node.inputs) add(v);
  for (const Value& v : node.captures) add(v);
  return out;
}

// A loop carries what it is given; a branch takes each value as it is.
Result<void> ManualParts::visit(const Meshes& meshes, const Node& node) {
  Manual own = of(node);
  if (node.op == op::partition_id || node.op == op::replica_id) own.is_manual = true;
  if (node.op == op::to_local || node.op == op::to_global) {
    const Atoms axes = TRY(meshes.axes(node.attrs.strings("manual_axes")));
    if (node.op == op::to_local) {
      own.is_manual = true;
      for (int a : axes)
        if (!has(own.axes, a)) own.axes.push_back(a);
    } else if (node.attrs.flag("is_nested")) {
      own.is_manual = true;
      std::erase_if(own.axes, [&](int a) { return has(axes, a); });
    } else {
      own = {};
    }
  }
  for (uint32_t r = 0; r < node.types.size(); ++r) set(node.result(r), own);
  for (const ir::Region& region : node.regions) {
    for (size_t i = 0; i < region.params.size(); ++i)
      if (node.op == op::while_)
        set(region.params[i], own);
      else if (node.op == op::case_ && i + 1 < node.inputs.size())
        set(region.params[i], of(node.inputs[i + 1]));
    for (const Node* inner : ir::body_of(region).nodes) TRY(visit(meshes, *inner));
  }
  return {};
}

Result<ManualParts> ManualParts::make(const Meshes& meshes, const ir::Graph& graph) {
  ManualParts out;
  for (const Node* node : graph.order()) TRY(out.visit(meshes, *node));
  return out;
}

Result<ManualSharding> manual_sharding(const Meshes& meshes, const Node& node, const Dims& dims) {
  ManualSharding out{
      TRY(meshes.parse(node.attrs.text("sharding"), dims)), {}, TRY(meshes.axes(node.attrs.strings("manual_axes")))};
  if (!out.declared.order.empty()) return own_order(node.attrs.text("sharding"));
  out.other = {.dims = out.declared.dims, .is_open = out.declared.is_open, .replicated = out.declared.replicated};
  for (Atoms& dim : out.declared.dims) std::erase_if(dim, [&](int a) { return !has(out.axes, a); });
  for (Atoms& dim : out.other.dims) std::erase_if(dim, [&](int a) { return has(out.axes, a); });
  return out;
}

Sharding left_of(const Sharding& sharding, const Atoms& without, const Dims& dims, const Meshes& meshes) {
  Sharding out(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    for (int a : sharding[d]) {
      if (has(without, a)) continue;
      out[d].push_back(a);
      if (dims[d] % meshes.count(out[d]) == 0) continue;
      out[d].pop_back();
      break;
    }
  return out;
}

Sharding joined(Sharding first, const Sharding& second) {
  for (size_t d = 0; d < first.size(); ++d) first[d].insert(first[d].end(), second[d].begin(), second[d].end());
  return first;
}

}  // namespace trine::compile

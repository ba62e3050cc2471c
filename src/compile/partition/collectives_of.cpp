// Collectives of a graph, regions included; see collectives_of.h.
#include "compile/partition/collectives_of.h"

#include <algorithm>

#include "ir/op_ids.h"

namespace trine::compile {

namespace {

int64_t bytes_of(const ir::Type& t) { return t.elements() * bytes(t.dtype); }

void add(const ir::Node& node, std::vector<CollectiveUse>& out) {
  CollectiveUse use{.kind = std::string(node.op.name()), .bytes = 0, .ranks = node.attrs.integer("group_size", 1)};
  for (const ir::Value& v : node.inputs) use.bytes += bytes_of(v.type());
  int64_t results = 0;
  for (const ir::Type& t : node.types) results += bytes_of(t);
  use.bytes = std::max(use.bytes, results);
  if (use.kind == "collective_permute") use.kind = "permute";
  if (use.kind == "collective_broadcast") use.kind = "broadcast";
  for (CollectiveUse& old : out)
    if (old.kind == use.kind && old.bytes == use.bytes && old.ranks == use.ranks) return void(++old.count);
  out.push_back(std::move(use));
}

void walk(const std::vector<const ir::Node*>& nodes, std::vector<CollectiveUse>& out) {
  constexpr ir::OpId kKinds[] = {op::all_reduce, op::all_gather,         op::reduce_scatter,
                                 op::all_to_all, op::collective_permute, op::collective_broadcast};
  for (const ir::Node* node : nodes) {
    if (std::find(std::begin(kKinds), std::end(kKinds), node->op) != std::end(kKinds)) add(*node, out);
    for (const ir::Region& region : node->regions) walk(ir::body_of(region).nodes, out);
  }
}

}  // namespace

std::vector<CollectiveUse> collectives_of(const ir::Graph& graph) {
  std::vector<CollectiveUse> out;
  walk(graph.order(), out);
  return out;
}

}  // namespace trine::compile

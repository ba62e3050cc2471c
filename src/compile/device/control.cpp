// Counting loops and last uses; see control.h.
#include "compile/device/control.h"

#include <algorithm>

#include "compile/device/memory/store.h"
#include "compile/graph/index_map.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

static std::optional<int64_t> integer_of(const ir::Value& v) {
  const auto number = v.type().dtype == Dtype::s32 ? ir::splat(v) : std::nullopt;
  return number ? std::optional(int64_t(*number)) : std::nullopt;
}

std::optional<int64_t> known_iterations(const ir::Node& loop) {
  const ir::Region &condition = loop.regions[0], &body = loop.regions[1];
  const ir::Node& test = *condition.results[0].node;
  if (test.op != op::compare || test.attrs.text("direction") != "LT") return std::nullopt;
  const auto end = integer_of(test.inputs[1]);
  for (size_t i = 0; end && i < condition.params.size(); ++i) {
    if (test.inputs[0] != condition.params[i]) continue;
    const auto start = integer_of(loop.inputs[i]);
    const ir::Node& next = *body.results[i].node;
    if (!start || next.op != op::add) return std::nullopt;
    const bool first = next.inputs[0] == body.params[i];
    if (!first && next.inputs[1] != body.params[i]) return std::nullopt;
    const auto step = integer_of(next.inputs[first ? 1 : 0]);
    if (!step || *step <= 0) return std::nullopt;
    return *end <= *start ? 0 : (*end - *start + *step - 1) / *step;
  }
  return std::nullopt;
}

std::vector<const ir::Node*> nodes_of(const ir::Region& region) {
  const ir::RegionBody body = ir::body_of(region);
  std::vector<const ir::Node*> out;
  for (const ir::Value& v : body.captures) {
    if (!is_made_anew(*v.node)) continue;
    for (const ir::Value& in : v.node->inputs) out.push_back(in.node);
    out.push_back(v.node);
  }
  const auto by_id = [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; };
  std::sort(out.begin(), out.end(), by_id);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.insert(out.end(), body.nodes.begin(), body.nodes.end());
  return out;
}

LastUse last_uses(const std::vector<Unit>& units, std::span<const ir::Value> live_out) {
  LastUse out;
  const auto mark = [&](ir::Value v, size_t at) {
    for (;;) {
      v = memory_root(v);
      size_t& last = out[v];
      last = std::max(last, at);
      if (view_kind(*v.node) == ViewKind::none) return;
      v = v.node->inputs[0];
    }
  };
  const auto reads = [&](const ir::Node& node, size_t at) {
    for (const auto* list : {&node.inputs, &node.captures})
      for (const ir::Value& v : *list) mark(v, at);
  };
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].single) reads(*units[u].single, u);
    if (units[u].product) reads(*units[u].product, u);
    for (const ir::Node* node : units[u].members) reads(*node, u);
  }
  for (const ir::Value& v : live_out) mark(v, units.size());
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

// A node is of a region where it depends on the region's parameters: a carried value that is used as it was given, in
// place of the parameter, takes what follows from it alone out of the loop.
#include "compile/graph/loop_invariants.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compile/graph/index_map.h"
#include "ir/op_ids.h"
#include "ops/op.h"

namespace trine::compile {

using ir::Node;
using ir::Value;

namespace {

// One region of the loop, with some of its parameters taken as given.
class Invariants {
 public:
  Invariants(const ir::Region& region, const std::vector<bool>& is_given) : region_(region) {
    for (size_t i = 0; i < region.params.size(); ++i) {
      own_.insert(region.params[i].node);
      if (is_given[i]) from_[region.params[i].node] = {i};
    }
    nodes_ = ir::body_of(region).nodes;
    for (const Node* node : nodes_) own_.insert(node);
    for (const Node* node : nodes_) add(*node);
  }

  // Of the values that would be read from before the loop: which parameters make one that is better made in it, and
  // whether one is worth the while.
  void judge(std::vector<bool>& is_bad, bool& is_worth) const {
    const auto read = [&](const Value& v) {
      const auto found = from_.find(v.node);
      if (found == from_.end() || v.node->op == op::parameter) return;
      if (!is_small_enough(*v.node))
        for (size_t i : found->second) is_bad[i] = true;
      else
        is_worth = is_worth || v.type().elements() > 1;
    };
    for (const Node* node : nodes_) {
      if (from_.contains(node)) continue;
      for (const Value& v : node->inputs) read(v);
      for (const Value& v : node->captures) read(v);
    }
    for (const Value& v : region_.results) read(v);
  }

 private:
  void add(const Node& node) {
    if (node.is_unique || !node.regions.empty() || node.types.size() != 1) return;
    std::vector<size_t> from;
    for (const Value& v : node.inputs) {
      const auto found = from_.find(v.node);
      if (found == from_.end() && own_.contains(v.node)) return;
      if (found != from_.end()) from.insert(from.end(), found->second.begin(), found->second.end());
    }
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    if (!from.empty()) from_[&node] = std::move(from);
  }
  // Elements that a value is made of.
  int64_t reach(const Value& v) const {
    const ops::Op* op = ops::find_op(v.node->op);
    const bool is_fused = v.node->op == op::broadcast_in_dim || (op && op->kind == ops::OpKind::elementwise);
    if (!is_fused || v.node->inputs.empty()) return v.type().elements();
    int64_t most = 0;
    for (const Value& in : v.node->inputs) most = std::max(most, reach(in));
    return std::min(most, v.type().elements());
  }
  bool is_small_enough(const Node& node) const {
    if (node.types[0].elements() == 1) return true;
    const ops::Op* op = ops::find_op(node.op);
    if (!op || op->kind == ops::OpKind::shape || op->kind == ops::OpKind::collective ||
        view_kind(node) != ViewKind::none)
      return false;
    return node.types[0].elements() <= (op->kind == ops::OpKind::elementwise ? reach(node.result()) : largest(node));
  }
  static int64_t largest(const Node& node) {
    int64_t most = 0;
    for (const Value& v : node.inputs) most = std::max(most, v.type().elements());
    return most;
  }

  const ir::Region& region_;
  std::vector<const Node*> nodes_;
  std::unordered_set<const Node*> own_;  // nodes and parameters
  std::unordered_map<const Node*, std::vector<size_t>>
      from_;  // of what does not change: the parameters it follows from
};

}  // namespace

ir::Replacement hoist_invariants(ir::Graph& graph, const Node& loop) {
  if (loop.op != op::while_ || loop.is_unique) return {};
  const ir::Region& body = loop.regions[1];
  const size_t count = loop.inputs.size();
  std::vector<bool> is_given(count);
  for (size_t i = 0; i < count; ++i) is_given[i] = body.results[i] == body.params[i] && !loop.types[i].is_token;
  bool is_worth = false;
  for (bool is_settled = false; !is_settled;) {
    std::vector<bool> is_bad(count);
    is_worth = false;
    for (const ir::Region& region : loop.regions) Invariants(region, is_given).judge(is_bad, is_worth);
    is_settled = true;
    for (size_t i = 0; i < count; ++i)
      if (is_bad[i] && is_given[i]) is_given[i] = is_settled = false;
  }
  if (!is_worth || std::all_of(is_given.begin(), is_given.end(), [](bool given) { return given; })) return {};

  ir::Spec spec{.op = op::while_, .attrs = loop.attrs, .where = loop.where};
  const auto carried = [&](const std::vector<Value>& values) {
    std::vector<Value> out;
    for (size_t i = 0; i < count; ++i)
      if (!is_given[i]) out.push_back(values[i]);
    return out;
  };
  spec.inputs = carried(loop.inputs);
  for (const Value& v : spec.inputs) spec.types.push_back(v.type());
  for (const ir::Region& region : loop.regions) {
    std::vector<Value> arguments = loop.inputs;
    for (size_t i = 0; i < count; ++i)
      if (!is_given[i]) arguments[i] = graph.parameter(region.params[i].type(), region.params[i].node->where);
    const std::vector<Value> made = ir::inlined(graph, region, arguments);
    const std::vector<Value> results(made.begin(), made.begin() + long(region.results.size()));
    ir::Region fresh{.params = carried(arguments), .results = &region == &body ? carried(results) : results};
    fresh.effects.assign(made.begin() + long(results.size()), made.end());
    spec.regions.push_back(std::move(fresh));
  }
  const Node* made = graph.add(std::move(spec));
  ir::Replacement out = loop.inputs;
  for (uint32_t i = 0, at = 0; i < count; ++i)
    if (!is_given[i]) out[i] = made->result(at++);
  return out;
}

}  // namespace trine::compile

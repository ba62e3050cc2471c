// The rules of verify.h. An error names the rule, the node and its location.
#include "ir/verify.h"

#include <unordered_set>

#include "base/text.h"
#include "ir/op_ids.h"

namespace trine::ir {

namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, NodeRule rule) : graph_(graph), rule_(rule) {}

  Result<void> all() {
    TRY(own(graph_.params));
    return body(graph_.order(), graph_.results, nullptr);
  }

 private:
  Error wrong(std::string_view rule, const Node& node, std::string what) {
    return fail(Code::invalid, cat(rule, ": ", node.op, ": ", what), graph_.location(node.where));
  }
  Result<void> own(const std::vector<Value>& params) {
    for (const Value& p : params) {
      if (p.node->op != op::parameter) return wrong("V3", *p.node, "stands where a parameter must");
      if (!owned_.insert(p.node).second) return wrong("V3", *p.node, "a parameter belongs to two places");
      TRY(type(*p.node));
    }
    return {};
  }
  Result<void> type(const Node& node) {
    for (const Type& t : node.types)
      if (!is_countable(t)) return wrong("V2", node, cat("a result of ", text(t)));
    return {};
  }
  Result<void> body(const std::vector<const Node*>& nodes, const std::vector<Value>& results, const Node* around) {
    for (const Node* node : nodes) {
      if (node->op == op::parameter) {
        if (!owned_.count(node)) return wrong("V3", *node, "a parameter of another place is used here");
        continue;
      }
      TRY(one(*node));
    }
    for (const Value& v : results)
      if (around && v.node->id >= around->id) return wrong("V1", *around, "a region's result comes after it");
    return {};
  }
  Result<void> one(const Node& node) {
    for (const Value& v : node.inputs)
      if (v.node->id >= node.id || v.index >= v.node->types.size())
        return wrong("V1", node, "an input comes after it, or is not a result");
    TRY(type(node));
    if (node.op == op::while_) TRY(loop(node));
    if (node.op == op::case_) TRY(choice(node));
    for (const Region& region : node.regions) {
      TRY(own(region.params));
      TRY(body(body_of(region).nodes, region.results, &node));
    }
    if (rule_) TRY(rule_(graph_, node));
    return {};
  }
  static bool alike(const std::vector<Value>& values, std::span<const Type> types) {
    if (values.size() != types.size()) return false;
    for (size_t i = 0; i < types.size(); ++i)
      if (!same_tensor(values[i].type(), types[i])) return false;
    return true;
  }
  Result<void> loop(const Node& node) {
    if (node.regions.size() != 2 || !alike(node.inputs, node.types))
      return wrong("V5", node, "needs a cond and a body, and results like its inputs");
    for (const Region& region : node.regions)
      if (!alike(region.params, node.types)) return wrong("V5", node, "a region does not take the carried types");
    const auto& go = node.regions[0].results;
    if (go.size() != 1 || !same_tensor(go[0].type(), tensor_type(Dtype::boolean, {})))
      return wrong("V5", node, "cond must give bool[]");
    if (!alike(node.regions[1].results, node.types)) return wrong("V5", node, "body must give the carried types");
    return {};
  }
  Result<void> choice(const Node& node) {
    if (node.inputs.empty() || node.regions.empty() || !same_tensor(node.inputs[0].type(), tensor_type(Dtype::s32, {})))
      return wrong("V6", node, "needs an s32[] index and a branch");
    std::vector<Type> used;
    for (size_t i = 1; i < node.inputs.size(); ++i) used.push_back(node.inputs[i].type());
    for (const Region& region : node.regions)
      if (!alike(region.params, used) || !alike(region.results, node.types))
        return wrong("V6", node, "a branch must take the used types and give the results' types");
    return {};
  }

  const Graph& graph_;
  NodeRule rule_;
  std::unordered_set<const Node*> owned_;
};

}  // namespace

Result<void> verify(const Graph& graph, NodeRule rule) { return Verifier(graph, rule).all(); }

}  // namespace trine::ir

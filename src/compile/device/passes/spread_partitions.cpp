// spread-partitions: elementwise work on arrays that fill few partitions, or that have hardly anything on each, as
// rows that fill all: a list of 2^20 numbers is [128, 8,192]. The same bytes throughout; what tells rows apart stays
// as it is. Islands: elementwise ops of one shape that read inputs of the program and feed one another, or results,
// alone. Among multiplies and reductions values are on chip in rows already, and stay in them.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arch/chips/chip.h"
#include "compile/device/loops/map.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ops/build.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::passes;

using ir::Node;
using ir::Value;

class Spread {
 public:
  Spread(const ir::Graph& graph, const arch::Chip& chip) : graph_(graph), lanes_(chip.partitions) {
    const std::vector<const Node*> nodes = graph.order();
    for (const Node* node : nodes)
      if (is_plain(*node)) islands_.emplace(node, node);
    for (const Node* node : nodes) join(*node);
    for (const Node* node : nodes) look(*node);
    for (const Node* node : nodes)
      if (is_member(*node) && !bound_.count(root(node))) any_ = true;
  }
  bool apply() const { return any_; }

  ir::Graph made() {
    return ir::substituted(graph_, [&](ir::Graph& to, const Node& old, const ir::NewValue& now) -> ir::Replacement {
      if (old.op == op::reshape) {
        const auto found = rows_.find(old.inputs[0].node);
        return found != rows_.end() && found->second.type().dims == old.types[0].dims ? ir::Replacement{found->second}
                                                                                      : ir::Replacement{};
      }
      if (!is_member(old) || bound_.count(root(&old))) return {};
      ops::Make make(to, old.where ? to.add_location(graph_.location(old.where)) : 0);
      const Dims dims = rows_of(old.types[0].dims);
      ops::Values inputs;
      for (const Value& v : old.inputs) inputs.push_back(in_rows(make, v, dims, now));
      const Value rows = make.op(old.op, inputs, old.attrs, {ir::tensor_type(old.types[0].dtype, dims)});
      rows_[&old] = rows;
      return {make.reshape(rows, old.types[0].dims)};
    });
  }

 private:
  // As many rows as there are partitions, or the most that are no more and of one length; one list where those are few,
  // which the loop cuts as it can.
  Dims rows_of(const Dims& dims) const {
    int64_t all = 1;
    for (int64_t d : dims) all *= d;
    int64_t rows = lanes_;
    while (all % rows) --rows;
    return rows < tuned::kSpreadRowsFew ? Dims{all} : Dims{rows, all / rows};
  }
  bool is_poor(const Dims& dims) const {
    if (dims.empty()) return false;
    int64_t all = 1;
    for (int64_t d : dims) all *= d;
    if (all < tuned::kSpreadLeast ||
        (dims.back() >= tuned::kSpreadRowsFew && all / dims.back() >= tuned::kSpreadRowsFew))
      return false;
    const Dims rows = rows_of(dims);
    const int64_t filled = rows.size() == 1 ? lanes_ : rows[0];
    return dims != rows &&
           filled > std::min<int64_t>(lanes_,
                                      dims.back() < tuned::kSpreadRowsFew ? tuned::kSpreadRowsFew : all / dims.back());
  }
  static bool is_number(const Value& v) {
    return v.type().rank() == 0 || (v.node->op == op::broadcast_in_dim && v.node->inputs[0].type().rank() == 0);
  }
  bool is_plain(const Node& n) const {
    if (n.types.size() != 1 || !n.regions.empty() || n.op == op::reshape || n.op == op::iota ||
        !is_poor(n.types[0].dims) || !has_map(n))
      return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](const Value& v) { return is_number(v) || v.type().dims == n.types[0].dims; });
  }
  bool is_member(const Node& n) const { return islands_.count(&n); }

  const Node* root(const Node* node) {
    const Node*& up = islands_.at(node);
    return up == node ? node : up = root(up);
  }
  void join(const Node& n) {
    if (!is_member(n)) return;
    for (const Value& v : n.inputs)
      if (is_member(*v.node)) islands_.at(root(v.node)) = root(&n);
  }
  // What binds an island to the shape it has: a neighbour that is neither elementwise nor plain memory.
  void look(const Node& n) {
    const bool member = is_member(n);
    for (const auto* list : {&n.inputs, &n.captures})
      for (const Value& v : *list) {
        if (is_member(*v.node) && !member && n.op != op::reshape) bound_.insert(root(v.node));
        if (!member || is_member(*v.node) || is_number(v)) continue;
        const Node& from = v.node->op == op::reshape ? *v.node->inputs[0].node : *v.node;
        if (from.op != op::parameter && from.op != op::constant) bound_.insert(root(&n));
      }
  }

  Value in_rows(ops::Make& make, const Value& v, const Dims& dims, const ir::NewValue& now) const {
    if (v.type().rank() == 0) return now(v);
    if (is_number(v)) return make.broadcast(now(v.node->inputs[0]), dims, {});
    if (const auto found = rows_.find(v.node); found != rows_.end()) return found->second;
    return make.reshape(now(v.node->op == op::reshape ? v.node->inputs[0] : v), dims);
  }

  const ir::Graph& graph_;
  int64_t lanes_;
  bool any_ = false;
  std::unordered_map<const Node*, const Node*> islands_;  // towards one node of each
  std::unordered_set<const Node*> bound_;
  std::unordered_map<const Node*, Value> rows_;
};

}  // namespace

ir::Graph spread_partitions(ir::Graph graph, const arch::Chip& chip) {
  Spread all(graph, chip);
  if (!all.apply()) return graph;
  return all.made();
}

}  // namespace trine::compile::device

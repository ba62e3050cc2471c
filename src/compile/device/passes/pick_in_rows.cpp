// pick-in-rows: one element of each row of what is reduced along its rows anyway, as cross-entropy picks the logit
// of a target: the sum of the row in which all others are left out, which the loop that reduces the rows finds on
// its way (loops/loop.cpp). Other gathers are decompose/index.cpp's. What is picked from a result of elementwise ops
// is computed from what is picked of their inputs.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "arch/chips/chip.h"
#include "compile/device/control.h"
#include "compile/device/loops/map.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ir/value_hash.h"
#include "ops/build.h"
#include "ops/layout/slices.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::passes;

using ir::Node;
using ir::Value;

constexpr int64_t kCountMax = 1 << 24;  // indices that f32 tells apart
constexpr size_t kOpsMax = 24;          // between the picked value and what is reduced

bool is_elementwise(const Node& n) {
  if (n.types.size() != 1 || !n.regions.empty() || !has_map(n)) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(),
                     [&](const Value& v) { return v.type().rank() == 0 || v.type().dims == n.types[0].dims; });
}

// A gather of one element of each row, the rows in order.
bool is_pick(const Node& n) {
  if (n.op != op::gather) return false;
  const Value &x = n.inputs[0], &indices = n.inputs[1];
  const Dims& dims = x.type().dims;
  const ops::SliceAxes axes = ops::gather_axes(n.attrs);
  const auto last = int64_t(dims.size()) - 1;
  if (last < 1 || axes.index_map != ir::Ints{last} || axes.collapsed != ir::Ints{last}) return false;
  if (!is_floating(x.type().dtype) || bits(x.type().dtype) < 16 || bits(x.type().dtype) > 32) return false;
  if (!is_integer(indices.type().dtype) || bits(indices.type().dtype) != 32) return false;
  const int64_t rows = x.type().elements() / std::max<int64_t>(1, dims.back());
  if (rows < tuned::kPickedRowsLeast || dims.back() > kCountMax || indices.type().elements() != rows) return false;
  if (!std::is_sorted(axes.indices_batching.begin(), axes.indices_batching.end())) return false;
  for (int64_t d = 0; d < last; ++d)
    if (dims[size_t(d)] > 1 && !ops::holds(axes.operand_batching, d)) return false;
  return true;
}

// The same rows under other dims.
bool keeps_rows(const Node& n) {
  return n.op == op::reshape && n.inputs[0].type().rank() > 0 && n.types[0].rank() > 0 &&
         n.inputs[0].type().dims.back() == n.types[0].dims.back();
}

class Picks {
 public:
  explicit Picks(const ir::Graph& graph) : graph_(graph) {
    const std::vector<const Node*> nodes = nodes_and_bodies(graph);
    std::vector<const Node*> picks;
    for (const Node* node : nodes) {
      if (is_pick(*node)) picks.push_back(node);
      if (node->op == op::reduce && node->inputs.size() == 2) note(*node);
    }
    for (const Node* node : picks) {
      std::unordered_set<const Node*> seen;
      bool any = false;
      if (is_found(node->inputs[0], seen, any) && any) picks_.insert(node);
    }
  }
  bool apply() const { return !picks_.empty(); }

  ir::Graph made() {
    return ir::substituted(graph_, [&](ir::Graph& to, const Node& old, const ir::NewValue& now) -> ir::Replacement {
      if (!picks_.count(&old)) return {};
      ops::Make make(to, old.where ? to.add_location(graph_.location(old.where)) : 0);
      Dims rows = old.inputs[0].type().dims;
      const int64_t columns = rows.back();
      rows.pop_back();
      const Value row_indices = make.reshape(now(old.inputs[1]), rows);
      const Dtype own = row_indices.type().dtype;
      const Value at = make.op(op::minimum, {make.op(op::maximum, {row_indices, make.number(own, 0, rows)}),
                                             make.number(own, double(columns - 1), rows)});
      return {make.reshape(picked(make, old.inputs[0], make.convert(at, Dtype::s32), now), old.types[0].dims)};
    });
  }

 private:
  // What the values that it reduces along rows are made of.
  void note(const Node& reduce) {
    const Value& x = reduce.inputs[0];
    if (reduce.attrs.ints("dimensions") != ir::Ints{int64_t(x.type().rank()) - 1}) return;
    std::vector<Value> worklist = {x};
    std::unordered_set<const Node*> seen;
    while (!worklist.empty() && seen.size() < kOpsMax) {
      const Value v = worklist.back();
      worklist.pop_back();
      if (v.type().dims != x.type().dims || !seen.insert(v.node).second) continue;
      if (is_elementwise(*v.node))
        worklist.insert(worklist.end(), v.node->inputs.begin(), v.node->inputs.end());
      else
        reduced_.insert(v);
    }
  }

  // Are rows of it, or of all that it is made of elementwise, reduced, or the same along each?
  bool is_found(const Value& v, std::unordered_set<const Node*>& seen, bool& any) const {
    if (v.type().rank() == 0 || ir::splat(v)) return true;
    if (!seen.insert(v.node).second) return true;
    if (seen.size() > kOpsMax) return false;
    if (keeps_rows(*v.node)) return is_found(v.node->inputs[0], seen, any);
    if (v.node->op == op::broadcast_in_dim) return is_along_rows(*v.node);
    if (!is_elementwise(*v.node)) {
      const bool found = reduced_.count(v) && is_floating(v.type().dtype);
      any = any || found;
      return found;
    }
    return std::all_of(v.node->inputs.begin(), v.node->inputs.end(),
                       [&](const Value& in) { return is_found(in, seen, any); });
  }
  static bool is_along_rows(const Node& n) {
    const ir::Ints& to = n.attrs.ints("broadcast_dimensions");
    const int64_t last = int64_t(n.types[0].rank()) - 1;
    return to.empty() || to.back() != last || n.inputs[0].type().dims.back() == 1;
  }

  Value picked(ops::Make& make, const Value& v, const Value& at, const ir::NewValue& now) {
    const Dims& rows = at.type().dims;
    if (v.type().rank() == 0) return now(v);
    if (const auto number = ir::splat(v)) return make.number(v.type().dtype, *number, rows);
    const Node& n = *v.node;
    if (keeps_rows(n)) {
      Dims own = n.inputs[0].type().dims;
      own.pop_back();
      return make.reshape(picked(make, n.inputs[0], make.reshape(at, own), now), rows);
    }
    if (n.op == op::broadcast_in_dim) {
      ir::Ints to = n.attrs.ints("broadcast_dimensions");
      Dims own = n.inputs[0].type().dims;
      if (!to.empty() && to.back() == int64_t(rows.size())) to.pop_back(), own.pop_back();
      return make.broadcast(make.reshape(now(n.inputs[0]), own), rows, to);
    }
    if (is_elementwise(n)) {
      ops::Values inputs;
      for (const Value& in : n.inputs) inputs.push_back(picked(make, in, at, now));
      return make.op(n.op, inputs, n.attrs, {ir::tensor_type(v.type().dtype, rows)});
    }
    const Dims& dims = v.type().dims;
    ir::Ints to(rows.size());
    for (size_t d = 0; d < to.size(); ++d) to[d] = int64_t(d);
    const auto last = int64_t(rows.size());
    const Value here = make.compare(make.iota(Dtype::s32, dims, last), make.broadcast(at, dims, to), "EQ");
    const Value alone = make.op(op::select, {here, now(v), make.number(v.type().dtype, 0, dims)});
    return make.reduce(alone, "add", {last});
  }

  const ir::Graph& graph_;
  std::unordered_set<Value, ir::ValueHash> reduced_;
  std::unordered_set<const Node*> picks_;
};

}  // namespace

ir::Graph pick_in_rows(ir::Graph graph, const arch::Chip&) {
  Picks picks(graph);
  if (!picks.apply()) return graph;
  return picks.made();
}

}  // namespace trine::compile::device

// split-long-rows: few rows that are very long, as logits over a vocabulary are: each becomes several, so that every
// partition has some. Elementwise work on them and reductions along them are done in parts, and what the parts gave
// is reduced again. Rows that a multiply reads stay as they are. Families: the values of one shape that feed one
// another elementwise, with the reductions that read them. Rows so long are not on chip in one piece, so another
// shape costs nothing at a family's borders.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arch/chips/chip.h"
#include "compile/device/control.h"
#include "compile/device/loops/map.h"
#include "compile/graph/index_map.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ir/value_hash.h"
#include "ops/build.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::passes;

using ir::Node;
using ir::Value;

class LongRows {
 public:
  LongRows(const ir::Graph& graph, const arch::Chip& chip) : graph_(graph), lanes_(chip.partitions) {
    const std::vector<const Node*> nodes = nodes_and_bodies(graph);
    for (const Node* node : nodes)
      if (is_member(*node) || is_reduction(*node)) join(*node);
    for (const Node* node : nodes) look(*node);
    for (const Value& v : bound_) unchanged_.insert(root(v));
    for (const Node* node : nodes) any_ = any_ || changes(*node);
  }
  bool apply() const { return any_; }

  ir::Graph made() {
    return ir::substituted(graph_, [&](ir::Graph& to, const Node& old, const ir::NewValue& now) -> ir::Replacement {
      if (!changes(old)) return {};
      ops::Make make(to, old.where ? to.add_location(graph_.location(old.where)) : 0);
      if (is_reduction(old)) return {reduced(make, old, now)};
      const Dims dims = cut(old.types[0].dims);
      ops::Values inputs;
      for (const Value& v : old.inputs) inputs.push_back(in_parts(make, v, dims, now));
      const Value made = make.op(old.op, inputs, old.attrs, {ir::tensor_type(old.types[0].dtype, dims)});
      made_[old.result()] = made;
      return {make.reshape(made, old.types[0].dims)};
    });
  }

 private:
  // How many parts a row has; 1 where it stays whole.
  int64_t parts(const Dims& dims) const {
    const int64_t n = dims.empty() ? 1 : dims.back(), rows = n ? element_count(dims) / n : 0;
    if (n < tuned::kSplitLong || rows == 0 || rows >= tuned::kSplitRowsFew) return 1;
    int64_t out = std::max<int64_t>(1, lanes_ / rows);
    while (n % out) --out;
    return out;
  }
  Dims cut(Dims dims) const {
    const int64_t n = parts(dims);
    dims.insert(dims.end() - 1, n);
    dims.back() /= n;
    return dims;
  }
  bool is_long(const Value& v) const { return !v.type().is_token && parts(v.type().dims) > 1; }

  bool is_member(const Node& n) const {
    if (n.types.size() != 1 || !n.regions.empty() || !is_long(n.result()) || !has_map(n)) return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](const Value& v) {
      return v.type().rank() == 0 || (v.type().dims == n.types[0].dims && !is_product(v));
    });
  }
  // Its loop is done on a multiply's own tiles.
  static bool is_product(const Value& v) { return v.node->op == op::dot_general || v.node->op == op::convolution; }
  bool is_reduction(const Node& n) const {
    if (n.op != op::reduce || n.inputs.size() != 2 || !n.regions.empty() || !is_long(n.inputs[0])) return false;
    return n.attrs.ints("dimensions") == ir::Ints{int64_t(n.inputs[0].type().dims.size()) - 1};
  }

  // Families, towards one value of each; what is spread over rows joins nothing.
  static bool joins(const Value& v) {
    return v.type().rank() != 0 && v.node->op != op::broadcast_in_dim && v.node->op != op::iota;
  }
  Value root(const Value& v) {
    const auto [found, fresh] = families_.try_emplace(v, v);
    if (fresh || found->second == v) return v;
    const Value up = root(found->second);
    return families_[v] = up;
  }
  void unite(const Value& a, const Value& b) { families_[root(a)] = root(b); }
  void join(const Node& n) {
    const Value at = n.op == op::reduce ? n.inputs[0] : n.result();
    for (const Value& v : n.inputs)
      if (joins(v) && is_long(v)) unite(v, at);
  }
  // Whoever contracts a value wants it as it is.
  void look(const Node& n) {
    if (n.op != op::dot_general && n.op != op::convolution) return;
    for (Value v : n.inputs) {
      while (v.node->op == op::reshape || view_kind(*v.node) != ViewKind::none) v = v.node->inputs[0];
      if (is_long(v)) bound_.push_back(v);
    }
  }
  bool changes(const Node& n) {
    if (is_reduction(n)) return !unchanged_.count(root(n.inputs[0]));
    return is_member(n) && !unchanged_.count(root(n.result()));
  }

  Value in_parts(ops::Make& make, const Value& v, const Dims& dims, const ir::NewValue& now) {
    if (v.type().rank() == 0) return now(v);
    if (const auto found = made_.find(v); found != made_.end()) return found->second;
    const auto last = int64_t(dims.size()) - 2;
    if (v.node->op == op::iota) return count(make, *v.node, dims);
    if (v.node->op != op::broadcast_in_dim) return make.reshape(now(v), dims);
    const Value& from = v.node->inputs[0];
    ir::Ints to = v.node->attrs.ints("broadcast_dimensions");
    const auto along = std::find(to.begin(), to.end(), last);
    if (along == to.end()) return make.broadcast(now(from), dims, to);
    const auto at = size_t(along - to.begin());
    Dims own = from.type().dims;
    if (own[at] == 1) {
      own.erase(own.begin() + long(at));
      to.erase(along);
    } else {
      own[at] = dims.back();
      own.insert(own.begin() + long(at), dims[size_t(last)]);
      to.insert(along + 1, last + 1);
      if (!std::is_sorted(to.begin(), to.end())) return make.reshape(now(v), dims);
    }
    return make.broadcast(make.reshape(now(from), own), dims, to);
  }
  static Value count(ops::Make& make, const Node& iota, const Dims& dims) {
    const Dtype dtype = iota.types[0].dtype;
    const int64_t along = iota.attrs.integer("iota_dimension"), last = int64_t(dims.size()) - 2;
    if (along != last) return make.iota(dtype, dims, along);
    const Value begins =
        make.op(op::multiply, {make.iota(dtype, dims, last), make.number(dtype, double(dims.back()), dims)});
    return make.op(op::add, {begins, make.iota(dtype, dims, last + 1)});
  }

  // Parts in f32, where the reduction is one of narrower floats.
  Value reduced(ops::Make& make, const Node& old, const ir::NewValue& now) {
    const Dims dims = cut(old.inputs[0].type().dims);
    const Dtype dtype = old.types[0].dtype, wide = is_floating(dtype) ? Dtype::f32 : dtype;
    const std::string kind(old.attrs.text("kind"));
    const auto last = int64_t(dims.size()) - 2;
    const Value x = make.convert(in_parts(make, old.inputs[0], dims, now), wide);
    const Value each = make.reduce(x, kind, {last + 1});
    const Value all = make.op(op::reduce, {each, make.convert(now(old.inputs[1]), wide)},
                              {{"dimensions", ir::Ints{last}}, {"kind", kind}});
    return make.convert(all, dtype);
  }

  const ir::Graph& graph_;
  int64_t lanes_;
  bool any_ = false;
  std::unordered_map<Value, Value, ir::ValueHash> families_;
  std::vector<Value> bound_;
  std::unordered_set<Value, ir::ValueHash> unchanged_;  // families that stay as they are
  std::unordered_map<Value, Value, ir::ValueHash> made_;
};

}  // namespace

ir::Graph split_long_rows(ir::Graph graph, const arch::Chip& chip) {
  LongRows all(graph, chip);
  if (!all.apply()) return graph;
  return all.made();
}

}  // namespace trine::compile::device

// flatten-sequences: sequences of odd lengths as one list of rows: [batch, positions, width] whose positions fill no
// tile of partitions evenly becomes [batch · positions, width] around the multiplies that do not tell sequences
// apart. The same bytes throughout. From the multiplies on, whatever treats all rows alike: loops of elements,
// reductions of rows, what is spread over them.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "arch/chips/chip.h"
#include "compile/device/loops/map.h"
#include "compile/graph/index_map.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ir/value_hash.h"
#include "ops/build.h"

namespace trine::compile::device {

namespace {

using ir::Node;
using ir::Value;

class Flat {
 public:
  Flat(const ir::Graph& graph, const arch::Chip& chip) : graph_(graph) {
    for (const Node* node : graph.order())
      if (is_plain_multiply(*node)) {
        const Dims& dims = node->types[0].dims;
        if (dims[0] > 1 && dims[1] > 1 && dims[0] * dims[1] > chip.partitions && dims[1] % chip.partitions)
          pairs_.insert({dims[0], dims[1]});
      }
  }
  bool apply() const { return !pairs_.empty(); }

  ir::Graph made() {
    return ir::substituted(graph_, [&](ir::Graph& to, const Node& old, const ir::NewValue& now) -> ir::Replacement {
      if (old.types.size() != 1 || !old.regions.empty() || !old.captures.empty() || !is_pair(old.result())) return {};
      ops::Make make(to, old.where ? to.add_location(graph_.location(old.where)) : 0);
      const Value rows = in_rows(make, old, now);
      if (!rows.node) return {};
      rows_[old.result()] = rows;
      return {make.reshape(rows, old.types[0].dims)};
    });
  }

 private:
  // [positions, …] by a matrix.
  static bool is_plain_multiply(const Node& n) {
    return n.op == op::dot_general && n.types[0].dims.size() == 3 && n.inputs[0].type().dims.size() == 3 &&
           n.inputs[1].type().dims.size() == 2 && n.attrs.ints("lhs_contract") == ir::Ints{2} &&
           n.attrs.ints("lhs_batch").empty();
  }
  bool is_pair(const Value& v) const {
    const Dims& dims = v.type().dims;
    return dims.size() >= 2 && pairs_.count({dims[0], dims[1]});
  }
  static Dims merged(const Dims& dims) {
    Dims out(dims.begin() + 1, dims.end());
    out[0] *= dims[0];
    return out;
  }
  static ir::Type merged(const ir::Type& type) { return ir::tensor_type(type.dtype, merged(type.dims)); }

  // Has it memory of its own, or rows already? A view that nobody stores would have to be.
  bool has_rows(const Value& v) const {
    return rows_.count(v) ||
           (view_kind(*v.node) == ViewKind::none && v.node->op != op::iota && v.node->op != op::constant);
  }
  Value rows_of(ops::Make& make, const Value& v, const ir::NewValue& now) const {
    const auto found = rows_.find(v);
    return found != rows_.end() ? found->second : make.reshape(now(v), merged(v.type().dims));
  }

  Value in_rows(ops::Make& make, const Node& n, const ir::NewValue& now) const {
    const ir::Type type = merged(n.types[0]);
    const auto less = [](ir::Ints dims) {
      for (int64_t& d : dims) --d;
      return dims;
    };
    if (is_plain_multiply(n)) {
      ir::Attrs attrs = n.attrs;
      attrs.set("lhs_contract", ir::Ints{1});
      return make.op(op::dot_general, {rows_of(make, n.inputs[0], now), now(n.inputs[1])}, attrs, {type});
    }
    if (n.op == op::broadcast_in_dim) {
      const ir::Ints& to = n.attrs.ints("broadcast_dimensions");
      const auto first = std::count_if(to.begin(), to.end(), [](int64_t d) { return d < 2; });
      if (first == 0) return make.broadcast(now(n.inputs[0]), type.dims, less(to));
      if (first != 2 || to[0] != 0 || to[1] != 1 || !is_pair(n.inputs[0]) || !has_rows(n.inputs[0])) return {};
      return make.broadcast(rows_of(make, n.inputs[0], now), type.dims, less({to.begin() + 1, to.end()}));
    }
    if (n.op == op::reduce) {
      const ir::Ints& dims = n.attrs.ints("dimensions");
      if (n.inputs.size() != 2 || !rows_.count(n.inputs[0]) || *std::min_element(dims.begin(), dims.end()) < 2)
        return {};
      ir::Attrs attrs = n.attrs;
      attrs.set("dimensions", less(dims));
      return make.op(op::reduce, {rows_of(make, n.inputs[0], now), now(n.inputs[1])}, attrs, {type});
    }
    if (n.op == op::reshape)
      return rows_.count(n.inputs[0]) ? make.reshape(rows_of(make, n.inputs[0], now), type.dims) : Value{};
    if (!has_map(n)) return {};
    ops::Values inputs;
    bool any = false;
    for (const Value& v : n.inputs) {
      const bool same = v.type().dims == n.types[0].dims;
      if (!same && v.type().rank() != 0) return {};
      if (same && !has_rows(v)) return {};
      any = any || (same && rows_.count(v));
      inputs.push_back(same ? rows_of(make, v, now) : now(v));
    }
    return any ? make.op(n.op, inputs, n.attrs, {type}) : Value{};
  }

  const ir::Graph& graph_;
  std::set<std::pair<int64_t, int64_t>> pairs_;  // batch and positions
  std::unordered_map<Value, Value, ir::ValueHash> rows_;
};

}  // namespace

ir::Graph flatten_sequences(ir::Graph graph, const arch::Chip& chip) {
  Flat all(graph, chip);
  if (!all.apply()) return graph;
  return all.made();
}

}  // namespace trine::compile::device

// Sums as multiplies, and multiplies whose operands change places; see decompose.h.
#include <algorithm>

#include "compile/device/build.h"
#include "compile/device/decompose.h"
#include "compile/device/dot.h"

namespace trine::compile::device {

using ir::Value;

// Over major dims, rows would have to be turned first. Few are combined one after the other; many are summed by a
// multiply with ones, which takes them as they lie.
ir::Replacement reduce_major(ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t kFew = 8, kColumnsMin = 128;
  const Dtype dtype = node.types[0].dtype;
  if (!node.regions.empty() || node.inputs.size() != 2 || is_integer(dtype) || dtype == Dtype::boolean) return {};
  const Dims& dims = node.inputs[0].type().dims;
  const ir::Ints& reduced = node.attrs.ints("dimensions");
  int64_t rows = 1, columns = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool over = std::find(reduced.begin(), reduced.end(), int64_t(d)) != reduced.end();
    if (over && columns != 1) return {};
    (over ? rows : columns) *= dims[d];
  }
  const std::string_view kind = node.attrs.text("kind");
  if (rows < 2 || columns < kColumnsMin || (rows > kFew && (kind != "add" || !multiplies(dtype)))) return {};
  Make make(graph, node.where);
  const Value x = make.reshape(node.inputs[0], {rows, columns});
  Value sum;
  if (rows <= kFew) {
    for (int64_t r = 0; r < rows; ++r) {
      const Value one = make.slice_dim(x, 0, r, r + 1);
      sum = r ? make.op(kind, {sum, one}) : one;
    }
  } else {
    const ir::Ints none, first = {0};
    sum = make.own("dot_general", {make.number(dtype, 1, {rows}), x}, ir::tensor_type(dtype, {columns}),
                   {{"lhs_batch", none},
                    {"rhs_batch", none},
                    {"lhs_contract", first},
                    {"rhs_contract", first},
                    {std::string(kKeepsFormat), true}});
  }
  const Dims& out = node.types[0].dims;
  return {make.op(kind, {make.reshape(sum, out), make.broadcast(node.inputs[1], out, {})})};
}

// A product transposed is the product of its operands the other way round.
ir::Replacement transposed_product(ir::Graph& graph, const ir::Node& node) {
  const ir::Node& dot = *node.inputs[0].node;
  if (dot.op != "dot_general") return {};
  const ir::Ints& from = node.attrs.ints("permutation");
  const size_t batch = dot.attrs.ints("lhs_batch").size(), rank = from.size();
  const size_t rows = dot.inputs[0].type().dims.size() - batch - dot.attrs.ints("lhs_contract").size();
  if (rows == 0 || rows + batch == rank) return {};
  for (size_t d = 0; d < rank; ++d) {
    const size_t columns = rank - batch - rows;
    const size_t want = d < batch ? d : d < batch + columns ? d + rows : d - columns;
    if (from[d] != int64_t(want)) return {};
  }
  ir::Attrs attrs = dot.attrs;
  attrs.set("lhs_batch", dot.attrs.ints("rhs_batch"));
  attrs.set("rhs_batch", dot.attrs.ints("lhs_batch"));
  attrs.set("lhs_contract", dot.attrs.ints("rhs_contract"));
  attrs.set("rhs_contract", dot.attrs.ints("lhs_contract"));
  return {graph.add1("dot_general", {dot.inputs[1], dot.inputs[0]}, node.types[0], std::move(attrs), node.where)};
}

}  // namespace trine::compile::device

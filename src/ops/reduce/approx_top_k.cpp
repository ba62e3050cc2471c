// approx_top_k: the largest (or smallest) elements of the first operand along `dimension`, as many as the declared
// result has, in order, and the second operand's elements that lie with them. Exact, which is the best recall.
// Inputs are values, indices, and an init for each; values that start above zero ask for the smallest.
// C1: both operands have one shape, results differ from it in that dim alone.
#include <algorithm>
#include <numeric>

#include "ops/axes.h"
#include "ops/reduce/sort_order.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const int64_t dimension = call.attrs.integer("dimension", -1);
  if (dimension < 0 || dimension >= x.rank())
    return fail(Code::invalid, cat("dimension ", dimension, " is out of range for rank ", x.rank()));
  if (call.inputs[1].dims != x.dims || call.inputs[2].rank() || call.declared.size() != 2)
    return fail(Code::invalid, "needs values and indices of one shape, an init for each, and two declared results");
  Dims dims = x.dims;
  if (call.declared[0].dims.size() == dims.size()) dims[size_t(dimension)] = call.declared[0].dims[size_t(dimension)];
  if (dims[size_t(dimension)] < 0 || dims[size_t(dimension)] > x.dims[size_t(dimension)])
    return fail(Code::invalid, cat(dims[size_t(dimension)], " of ", x.dims[size_t(dimension)], " elements"));
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, dims), ir::tensor_type(call.inputs[1].dtype, dims)};
}

Result<void> eval(const Eval& e) {
  const int64_t dimension = e.node.attrs.integer("dimension");
  const Dims& dims = e.in[0].dims;
  const ir::Ints others = axes_besides(int(dims.size()), {dimension});
  const auto lines = offsets_of(dims, others), steps = offsets_of(dims, {dimension});
  const auto out_lines = offsets_of(e.out[0].dims, others), out_steps = offsets_of(e.out[0].dims, {dimension});
  double init = 0;
  load_wide(e.in[2], 0, 1, &init);
  const auto keys = sort_keys({.is_descending = init <= 0, .is_total = true}, e.in[0]);
  std::vector<int64_t> order(steps.size());
  for (size_t line = 0; line < lines.size() && !out_steps.empty(); ++line) {
    std::transform(steps.begin(), steps.end(), order.begin(), [&](int64_t s) { return s + lines[line]; });
    std::partial_sort(order.begin(), order.begin() + int64_t(out_steps.size()), order.end(), [&](int64_t a, int64_t b) {
      const uint64_t x = keys[size_t(a)], y = keys[size_t(b)];
      return x != y ? x < y : a < b;
    });
    for (size_t i = 0; i < out_steps.size(); ++i)
      for (size_t v = 0; v < 2; ++v) copy_element(e.out[v], out_lines[line] + out_steps[i], e.in[v], order[i]);
  }
  return {};
}

}  // namespace

extern const Op op_approx_top_k{
    .name = "approx_top_k", .kind = OpKind::other, .arity = 4, .attrs = "dimension", .infer = infer, .eval = eval};

}  // namespace trine::ops

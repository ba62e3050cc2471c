// top_k: the k largest elements along the last dim in descending order, and their s32 indices; the earlier of equals
// first. Floats are in total order: NaN above inf, -0 below 0, negative NaN lowest. C1: 0 <= k <= the last dim.
#include <algorithm>
#include <numeric>

#include "ops/shape.h"
#include "ops/sort_order.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const int64_t k = call.attrs.integer("k", -1);
  if (x.rank() == 0 || k < 0 || k > x.dims.back())
    return fail(Code::invalid, cat("k is ", k, "; it must be at most the last dim"));
  if (is_complex(x.dtype)) return fail(Code::invalid, "complex numbers have no order");
  Dims dims = x.dims;
  dims.back() = k;
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, dims), ir::tensor_type(Dtype::s32, dims)};
}

Result<void> eval(const Eval& e) {
  const int64_t n = e.in[0].dims.back(), k = e.out[0].dims.back();
  if (e.out[0].elements() == 0) return {};
  const std::vector<uint64_t> keys = sort_keys({.is_descending = true, .is_total = true}, e.in[0]);
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t line = 0; line < e.in[0].elements() / n; ++line) {
    std::iota(order.begin(), order.end(), line * n);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
      const uint64_t x = keys[size_t(a)], y = keys[size_t(b)];
      return x != y ? x < y : a < b;
    });
    for (int64_t i = 0; i < k; ++i) {
      copy_element(e.out[0], line * k + i, e.in[0], order[size_t(i)]);
      e.out[1].as<int32_t>()[line * k + i] = int32_t(order[size_t(i)] - line * n);
    }
  }
  return {};
}

}  // namespace

extern const Op op_top_k{
    .name = "top_k", .kind = OpKind::other, .arity = 1, .attrs = "k", .infer = infer, .eval = eval};

}  // namespace trine::ops

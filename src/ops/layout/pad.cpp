// pad: inputs (x, value). `interior_padding` values between neighbours, then edge_padding_low before and
// edge_padding_high after; negative edges cut off. C1: interior is not negative. C2: no result dim is negative.
#include <algorithm>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  if (call.inputs[1].dtype != x.dtype || call.inputs[1].rank() != 0)
    return fail(Code::invalid, cat("the padding value is ", ir::text(call.inputs[1]), "; expected a scalar like x"));
  const Dims low = TRY(need_ints(call, "edge_padding_low", x.rank()));
  const Dims high = TRY(need_ints(call, "edge_padding_high", x.rank()));
  const Dims interior = TRY(need_ints(call, "interior_padding", x.rank()));
  Dims dims;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (interior[d] < 0) return fail(Code::invalid, cat("dim ", d, ": interior padding is ", interior[d]));
    constexpr int64_t kFar = int64_t{1} << 60;  // sums of a few of them still fit
    for (int64_t far : {low[d], high[d], interior[d]})
      if (far > kFar || far < -kFar) return fail(Code::out_of_range, cat("dim ", d, ": padding by ", far));
    int64_t size = 0;
    const bool is_huge = __builtin_mul_overflow(std::max<int64_t>(x.dims[d] - 1, 0), interior[d], &size) ||
                         __builtin_add_overflow(size, x.dims[d], &size) ||
                         __builtin_add_overflow(size, low[d], &size) || __builtin_add_overflow(size, high[d], &size);
    if (is_huge || size < 0)
      return fail(Code::invalid, cat("dim ", d, ": ", x.dims[d], " padded by ", low[d], ", ", high[d], " and ",
                                     interior[d], " has no size"));
    dims.push_back(size);
  }
  return one_type(x.dtype, std::move(dims));
}

Result<void> eval(const Eval& e) {
  const TensorView &x = e.in[0], &out = e.out[0];
  const Walk all = whole(out);
  copy_walk(out.dims, all, {e.in[1], 0, Dims(out.dims.size(), 0)});
  if (x.elements() == 0 || out.elements() == 0) return {};
  Walk to = all, from = whole(x);
  Dims sizes;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const int64_t low = e.node.attrs.ints("edge_padding_low")[d];
    const int64_t step = e.node.attrs.ints("interior_padding")[d] + 1;
    const int64_t first = low < 0 ? (-low + step - 1) / step : 0;  // the first element not cut off
    const int64_t past = low < out.dims[d] ? (out.dims[d] - low - 1) / step + 1 : 0;
    sizes.push_back(std::min(x.dims[d], past) - first);
    if (sizes.back() <= 0) return {};
    from.base += first * from.strides[d];
    to.base += (low + first * step) * all.strides[d];
    if (sizes.back() > 1) to.strides[d] *= step;
  }
  copy_walk(sizes, to, from);
  return {};
}

}  // namespace

extern const Op op_pad{.name = "pad",
                       .kind = OpKind::shape,
                       .arity = 2,
                       .attrs = "edge_padding_low edge_padding_high interior_padding",
                       .infer = infer,
                       .eval = eval};

}  // namespace trine::ops

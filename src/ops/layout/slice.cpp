// slice: in each dim the elements start, start + stride, ... below limit.
// C1: 0 <= start <= limit <= dim. C2: stride is at least 1.
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const Dims starts = TRY(need_ints(call, "start_indices", x.rank()));
  const Dims limits = TRY(need_ints(call, "limit_indices", x.rank()));
  const Dims strides = TRY(need_ints(call, "strides", x.rank()));
  Dims dims;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > x.dims[d])
      return fail(Code::invalid, cat("dim ", d, ": ", starts[d], " to ", limits[d], " is not inside 0 to ", x.dims[d]));
    if (strides[d] < 1) return fail(Code::invalid, cat("dim ", d, ": the stride is ", strides[d], "; at least 1"));
    const int64_t span = limits[d] - starts[d];
    dims.push_back(span / strides[d] + (span % strides[d] != 0));
  }
  return one_type(x.dtype, std::move(dims));
}

Result<void> eval(const Eval& e) {
  Dims strides = row_major_strides(e.in[0].dims);
  const int64_t base = offset_of(e.node.attrs.ints("start_indices"), strides);
  for (size_t d = 0; d < strides.size(); ++d)
    if (e.out[0].dims[d] > 1) strides[d] *= e.node.attrs.ints("strides")[d];
  copy_walk(e.out[0].dims, whole(e.out[0]), {e.in[0], base, strides});
  return {};
}

}  // namespace

extern const Op op_slice{.name = "slice",
                         .kind = OpKind::shape,
                         .arity = 1,
                         .attrs = "start_indices limit_indices strides",
                         .infer = infer,
                         .eval = eval};

}  // namespace trine::ops

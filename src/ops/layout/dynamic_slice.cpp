// dynamic_slice: inputs (x, one start per dim). The window of `slice_sizes` at the starts, moved inside x.
// C1: starts are integer scalars of one dtype. C2: 0 <= size <= dim.
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an input");
  const ir::Type& x = call.inputs[0];
  TRY(check_starts(call.inputs.subspan(1), x.rank()));
  const Dims sizes = TRY(need_ints(call, "slice_sizes", x.rank()));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0 || sizes[d] > x.dims[d])
      return fail(Code::invalid, cat("dim ", d, ": size ", sizes[d], " is not inside 0 to ", x.dims[d]));
  return one_type(x.dtype, sizes);
}

Result<void> eval(const Eval& e) {
  Walk from = whole(e.in[0]);
  from.base = offset_of(clamped_starts(e.in.subspan(1), e.in[0].dims, e.out[0].dims), from.strides);
  copy_walk(e.out[0].dims, whole(e.out[0]), from);
  return {};
}

}  // namespace

extern const Op op_dynamic_slice{
    .name = "dynamic_slice", .kind = OpKind::shape, .attrs = "slice_sizes", .infer = infer, .eval = eval};

}  // namespace trine::ops

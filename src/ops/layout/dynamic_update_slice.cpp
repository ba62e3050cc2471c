// dynamic_update_slice: inputs (x, update, one start per dim). x with the window at the starts, moved inside x,
// replaced by the update. C1: starts are integer scalars of one dtype. C2: the update is no larger than x in any dim.
#include <cstring>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.inputs.size() < 2) return fail(Code::invalid, "needs an input and an update");
  const ir::Type &x = call.inputs[0], &update = call.inputs[1];
  TRY(check_starts(call.inputs.subspan(2), x.rank()));
  bool fits = update.dtype == x.dtype && update.rank() == x.rank();
  for (size_t d = 0; fits && d < x.dims.size(); ++d) fits = update.dims[d] <= x.dims[d];
  if (!fits) return fail(Code::invalid, cat("the update ", ir::text(update), " does not fit in ", ir::text(x)));
  return one_type(x.dtype, x.dims);
}

Result<void> eval(const Eval& e) {
  if (e.out[0].data != e.in[0].data) std::memcpy(e.out[0].data, e.in[0].data, e.out[0].bytes());
  Walk to = whole(e.out[0]);
  to.base = offset_of(clamped_starts(e.in.subspan(2), e.in[0].dims, e.in[1].dims), to.strides);
  copy_walk(e.in[1].dims, to, whole(e.in[1]));
  return {};
}

}  // namespace

extern const Op op_dynamic_update_slice{
    .name = "dynamic_update_slice", .kind = OpKind::shape, .infer = infer, .eval = eval};

}  // namespace trine::ops

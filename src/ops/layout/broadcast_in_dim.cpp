// broadcast_in_dim: input dim i is result dim broadcast_dimensions[i]; a dim of 1 is repeated, new dims repeat all.
// C1: one distinct result dim per input dim. C2: the input's dim is 1 or the result's.
#include <algorithm>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.declared.size() != 1) return fail(Code::invalid, "its result type must be given");
  const ir::Type &x = call.inputs[0], &y = call.declared[0];
  const Dims to = TRY(need_ints(call, "broadcast_dimensions", x.rank()));
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] < 0 || to[i] >= y.rank())
      return fail(Code::invalid, cat("broadcast dim ", to[i], " is out of range for rank ", y.rank()));
    if (std::count(to.begin(), to.end(), to[i]) > 1) return fail(Code::invalid, cat("broadcast dim ", to[i], " twice"));
    if (x.dims[i] != 1 && x.dims[i] != y.dims[size_t(to[i])])
      return fail(Code::invalid, cat("input dim ", i, " of ", x.dims[i], " cannot become ", y.dims[size_t(to[i])]));
  }
  return one_type(x.dtype, y.dims);
}

Result<void> eval(const Eval& e) {
  const Dims own = row_major_strides(e.in[0].dims);
  const ir::Ints& to = e.node.attrs.ints("broadcast_dimensions");
  Dims strides(e.out[0].dims.size(), 0);
  for (size_t i = 0; i < to.size(); ++i)
    if (e.in[0].dims[i] != 1) strides[size_t(to[i])] = own[i];
  copy_walk(e.out[0].dims, whole(e.out[0]), {e.in[0], 0, strides});
  return {};
}

}  // namespace

extern const Op op_broadcast_in_dim{.name = "broadcast_in_dim",
                                    .kind = OpKind::shape,
                                    .arity = 1,
                                    .attrs = "broadcast_dimensions",
                                    .infer = infer,
                                    .eval = eval};

}  // namespace trine::ops

// broadcast: repeats the input along new leading dims of `broadcast_sizes`. C1: no size is negative.
#include <algorithm>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  Dims dims = call.attrs.ints("broadcast_sizes");
  for (int64_t d : dims)
    if (d < 0) return fail(Code::invalid, cat("a broadcast size is ", d));
  dims.insert(dims.end(), call.inputs[0].dims.begin(), call.inputs[0].dims.end());
  return one_type(call.inputs[0].dtype, std::move(dims));
}

Result<void> eval(const Eval& e) {
  Dims strides(e.node.attrs.ints("broadcast_sizes").size(), 0);
  const Dims own = row_major_strides(e.in[0].dims);
  strides.insert(strides.end(), own.begin(), own.end());
  copy_walk(e.out[0].dims, whole(e.out[0]), {e.in[0], 0, strides});
  return {};
}

}  // namespace

extern const Op op_broadcast{
    .name = "broadcast", .kind = OpKind::shape, .arity = 1, .attrs = "broadcast_sizes", .infer = infer, .eval = eval};

}  // namespace trine::ops

// transpose: result dim i is input dim permutation[i]. C1: permutation is one, of the input's dims.
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  const ir::Ints& permutation = call.attrs.ints("permutation");
  if (!is_permutation(permutation, x.rank()))
    return fail(Code::invalid, cat("permutation must name each of the ", x.rank(), " dims once"));
  Dims dims;
  for (int64_t d : permutation) dims.push_back(x.dims[size_t(d)]);
  return one_type(x.dtype, std::move(dims));
}

Result<void> eval(const Eval& e) {
  const Dims strides = row_major_strides(e.in[0].dims);
  Dims moved;
  for (int64_t d : e.node.attrs.ints("permutation")) moved.push_back(strides[size_t(d)]);
  copy_walk(e.out[0].dims, whole(e.out[0]), {e.in[0], 0, moved});
  return {};
}

}  // namespace

extern const Op op_transpose{
    .name = "transpose", .kind = OpKind::shape, .arity = 1, .attrs = "permutation", .infer = infer, .eval = eval};

}  // namespace trine::ops

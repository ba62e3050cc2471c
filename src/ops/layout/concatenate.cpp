// concatenate: the inputs one after another along `dimension`. C1: one dtype, and equal dims but for that one.
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  TRY(same_as_first(call));
  const ir::Type& first = call.inputs[0];
  const auto dim = size_t(TRY(need_dim(call, "dimension", first.rank())));
  Dims dims = first.dims;
  dims[dim] = 0;
  for (const ir::Type& t : call.inputs) {
    Dims like = t.dims;
    if (like.size() > dim) like[dim] = first.dims[dim];
    if (t.dtype != first.dtype || like != first.dims)
      return fail(Code::invalid, cat(ir::text(t), " does not join ", ir::text(first), " along dim ", dim));
    if (__builtin_add_overflow(dims[dim], t.dims[dim], &dims[dim]))
      return fail(Code::invalid, "the joined dim is too large");
  }
  return one_type(first.dtype, std::move(dims));
}

Result<void> eval(const Eval& e) {
  const auto dim = size_t(e.node.attrs.integer("dimension"));
  Walk to = whole(e.out[0]);
  for (const TensorView& part : e.in) {
    copy_walk(part.dims, to, whole(part));
    to.base += part.dims[dim] * to.strides[dim];
  }
  return {};
}

}  // namespace

extern const Op op_concatenate{
    .name = "concatenate", .kind = OpKind::shape, .attrs = "dimension", .infer = infer, .eval = eval};

}  // namespace trine::ops

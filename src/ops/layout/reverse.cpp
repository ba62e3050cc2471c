// reverse: the elements in opposite order along `dimensions`. C1: each is a dim of the input, named once.
#include <algorithm>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Ints& dims = call.attrs.ints("dimensions");
  for (int64_t d : dims) {
    if (d < 0 || d >= call.inputs[0].rank())
      return fail(Code::invalid, cat("dim ", d, " is out of range for rank ", call.inputs[0].rank()));
    if (std::count(dims.begin(), dims.end(), d) > 1) return fail(Code::invalid, cat("dim ", d, " twice"));
  }
  return same_as_first(call);
}

Result<void> eval(const Eval& e) {
  Walk from = whole(e.in[0]);
  for (int64_t d : e.node.attrs.ints("dimensions")) {
    int64_t& stride = from.strides[size_t(d)];
    from.base += stride * (e.in[0].dims[size_t(d)] - 1);
    stride = -stride;
  }
  copy_walk(e.out[0].dims, whole(e.out[0]), from);
  return {};
}

}  // namespace

extern const Op op_reverse{
    .name = "reverse", .kind = OpKind::shape, .arity = 1, .attrs = "dimensions", .infer = infer, .eval = eval};

}  // namespace trine::ops

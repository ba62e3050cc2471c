// reshape: the same elements in row-major order under the declared dims. C1: as many of them.
#include <cstring>

#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.declared.size() != 1) return fail(Code::invalid, "its result type must be given");
  const ir::Type &x = call.inputs[0], &y = call.declared[0];
  if (x.elements() != y.elements())
    return fail(Code::invalid, cat(x.elements(), " elements cannot become ", ir::text(y)));
  return one_type(x.dtype, y.dims);
}

Result<void> eval(const Eval& e) {
  std::memcpy(e.out[0].data, e.in[0].data, e.out[0].bytes());
  return {};
}

}  // namespace

extern const Op op_reshape{.name = "reshape", .kind = OpKind::shape, .arity = 1, .infer = infer, .eval = eval};

}  // namespace trine::ops

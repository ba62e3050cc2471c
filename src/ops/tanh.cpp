// tanh: the hyperbolic tangent of each element.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_tanh{
    .name = "tanh", .kind = OpKind::elementwise, .arity = 1, .infer = same_as_first, .eval = [](const Eval& e) {
      return each_unary(e, []<Inexact T>(T x) -> T { return std::tanh(x); });
    }};

}  // namespace trine::ops

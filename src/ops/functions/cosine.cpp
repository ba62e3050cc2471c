// cosine: the cosine of each element, in radians.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_cosine =
    unary("cosine", []<Inexact T>(T x) -> T { return std::cos(x); },
          {.host = {.op = arch::LoopOp::cos, .cost = kHeavy}, .abroad = {.onnx = "Cos:7", .torch = "cos"}});

}  // namespace trine::ops

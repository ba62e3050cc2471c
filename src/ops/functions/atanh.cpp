// atanh: the inverse hyperbolic tangent; NaN outside -1..1.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_atanh =
    unary("atanh", []<Inexact T>(T x) -> T { return std::atanh(x); },
          {.host = {.op = arch::LoopOp::atanh, .cost = kHeavy}, .abroad = {.onnx = "Atanh:9", .torch = "atanh"}});

}  // namespace trine::ops

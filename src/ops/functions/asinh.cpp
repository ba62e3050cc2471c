// asinh: the inverse hyperbolic sine.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_asinh =
    unary("asinh", []<Inexact T>(T x) -> T { return std::asinh(x); },
          {.host = {.op = arch::LoopOp::asinh, .cost = kHeavy}, .abroad = {.onnx = "Asinh:9", .torch = "asinh"}});

}  // namespace trine::ops

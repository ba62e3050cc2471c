// acosh: the inverse hyperbolic cosine; NaN below 1.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_acosh =
    unary("acosh", []<Inexact T>(T x) -> T { return std::acosh(x); },
          {.host = {.op = arch::LoopOp::acosh, .cost = kHeavy}, .abroad = {.onnx = "Acosh:9", .torch = "acosh"}});

}  // namespace trine::ops

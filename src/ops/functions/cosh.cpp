// cosh: the hyperbolic cosine.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_cosh =
    unary("cosh", []<Inexact T>(T x) -> T { return std::cosh(x); },
          {.host = {.op = arch::LoopOp::cosh, .cost = kHeavy}, .abroad = {.onnx = "Cosh:9", .torch = "cosh"}});

}  // namespace trine::ops

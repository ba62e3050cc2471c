// sinh: the hyperbolic sine.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_sinh =
    unary("sinh", []<Inexact T>(T x) -> T { return std::sinh(x); },
          {.host = {.op = arch::LoopOp::sinh, .cost = kHeavy}, .abroad = {.onnx = "Sinh:9", .torch = "sinh"}});

}  // namespace trine::ops

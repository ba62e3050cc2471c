// tan: the tangent of each element, in radians.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_tan =
    unary("tan", []<Inexact T>(T x) -> T { return std::tan(x); },
          {.host = {.op = arch::LoopOp::tan, .cost = kHeavy}, .abroad = {.onnx = "Tan:7", .torch = "tan"}});

}  // namespace trine::ops

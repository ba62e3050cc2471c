// atan: the arc tangent.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_atan =
    unary("atan", []<Inexact T>(T x) -> T { return std::atan(x); },
          {.host = {.op = arch::LoopOp::atan, .cost = kHeavy}, .abroad = {.onnx = "Atan:7", .torch = "atan"}});

}  // namespace trine::ops

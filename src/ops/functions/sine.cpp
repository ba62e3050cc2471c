// sine: the sine of each element, in radians.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_sine =
    unary("sine", []<Inexact T>(T x) -> T { return std::sin(x); },
          {.host = {.op = arch::LoopOp::sin, .cost = kHeavy}, .abroad = {.onnx = "Sin:7", .torch = "sin"}});

}  // namespace trine::ops

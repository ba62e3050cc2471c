// acos: the arc cosine; NaN outside -1..1.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_acos =
    unary("acos", []<Inexact T>(T x) -> T { return std::acos(x); },
          {.host = {.op = arch::LoopOp::acos, .cost = kHeavy}, .abroad = {.onnx = "Acos:7", .torch = "acos"}});

}  // namespace trine::ops

// asin: the arc sine; NaN outside -1..1.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_asin =
    unary("asin", []<Inexact T>(T x) -> T { return std::asin(x); },
          {.host = {.op = arch::LoopOp::asin, .cost = kHeavy}, .abroad = {.onnx = "Asin:7", .torch = "asin"}});

}  // namespace trine::ops

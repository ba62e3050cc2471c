// sqrt: the square root; NaN for negative numbers, the principal root of complex ones.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_sqrt = unary("sqrt", []<Inexact T>(T x) -> T { return std::sqrt(x); },
                                {.host = {.op = arch::LoopOp::sqrt, .cost = 5},
                                 .device = {.activation = "sqrt"},
                                 .abroad = {.onnx = "Sqrt:1", .torch = "sqrt"}});

}  // namespace trine::ops

// exponential: e to the power of each element.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_exponential = unary("exponential", []<Inexact T>(T x) -> T { return std::exp(x); },
                                       {.host = {.op = arch::LoopOp::exp, .cost = kHeavy},
                                        .device = {.activation = "exp"},
                                        .abroad = {.onnx = "Exp:1", .torch = "exp"}});

}  // namespace trine::ops

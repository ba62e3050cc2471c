// tanh: the hyperbolic tangent of each element.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_tanh = unary("tanh", []<Inexact T>(T x) -> T { return std::tanh(x); },
                                {.host = {.op = arch::LoopOp::tanh, .cost = kHeavy},
                                 .device = {.activation = "tanh"},
                                 .abroad = {.onnx = "Tanh:1", .torch = "tanh"}});

}  // namespace trine::ops

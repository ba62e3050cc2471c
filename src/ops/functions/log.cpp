// log: the natural logarithm; NaN for negative numbers.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_log = unary("log", []<Inexact T>(T x) -> T { return std::log(x); },
                               {.host = {.op = arch::LoopOp::log, .cost = kHeavy},
                                .device = {.activation = "log"},
                                .abroad = {.onnx = "Log:1", .torch = "log"}});

}  // namespace trine::ops

// erf: the error function.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_erf = unary("erf", []<Floating T>(T x) -> T { return std::erf(x); },
                               {.host = {.op = arch::LoopOp::erf, .cost = kHeavy},
                                .device = {.activation = "erf"},
                                .abroad = {.onnx = "Erf:9", .torch = "erf"}});

}  // namespace trine::ops

// rsqrt: 1 / sqrt(x).
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_rsqrt = unary("rsqrt", []<Inexact T>(T x) -> T { return 1.0 / std::sqrt(x); },
                                 {.host = {.op = arch::LoopOp::rsqrt, .cost = kHeavy},
                                  .device = {.activation = "rsqrt"},
                                  .abroad = {.torch = "rsqrt"}});

}  // namespace trine::ops

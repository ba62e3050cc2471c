// ceil: the least whole number not below x.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_ceil =
    unary("ceil", []<Floating T>(T x) -> T { return std::ceil(x); }, {.host = {.op = arch::LoopOp::ceil}});

}  // namespace trine::ops

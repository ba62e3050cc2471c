// is_finite: neither infinite nor NaN.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_is_finite =
    unary("is_finite", []<Floating T>(T x) { return std::isfinite(x); }, {.host = {.op = arch::LoopOp::is_finite}});

}  // namespace trine::ops

// lgamma: the logarithm of |gamma(x)|; infinite at 0, -1, -2 ...
#include <cmath>

#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_lgamma =
    unary("lgamma",
          []<Floating T>(T x) -> T {
            int sign = 0;  // lgamma itself would write a global
            return lgamma_r(x, &sign);
          },
          {.host = {.op = arch::LoopOp::lgamma, .cost = kHeavy}, .abroad = {.torch = "lgamma"}});

}  // namespace trine::ops

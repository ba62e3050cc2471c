// erf_inv: the inverse of the error function; infinite at 1 and -1, NaN beyond.
#include "ops/elementwise.h"
#include "ops/functions/special.h"

namespace trine::ops {

extern const Op op_erf_inv =
    unary("erf_inv", []<Floating T>(T x) -> T { return erf_inv(x); },
          {.host = {.op = arch::LoopOp::erf_inv, .cost = kHeavy}, .abroad = {.torch = "erfinv"}});

}  // namespace trine::ops

// digamma: the logarithmic derivative of the gamma function; NaN at 0, -1, -2 ...
#include "ops/elementwise.h"
#include "ops/functions/special.h"

namespace trine::ops {

extern const Op op_digamma = unary("digamma", []<Floating T>(T x) -> T { return digamma(x); },
                                   {.host = {.op = arch::LoopOp::digamma, .cost = kHeavy}});

}  // namespace trine::ops

// erfc: 1 - erf(x), exact where that is tiny.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_erfc = unary("erfc", []<Floating T>(T x) -> T { return std::erfc(x); },
                                {.host = {.op = arch::LoopOp::erfc, .cost = kHeavy}, .abroad = {.torch = "erfc"}});

}  // namespace trine::ops

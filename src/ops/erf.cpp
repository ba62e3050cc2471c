// erf: the error function.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_erf = unary("erf", []<Floating T>(T x) -> T { return std::erf(x); });

}  // namespace trine::ops

// is_inf: whether x is an infinity of either sign.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_is_inf = unary("is_inf", []<Floating T>(T x) { return std::isinf(x); });

}  // namespace trine::ops

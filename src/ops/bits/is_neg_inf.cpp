// is_neg_inf: whether x is the negative infinity.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_is_neg_inf = unary("is_neg_inf", []<Floating T>(T x) { return std::isinf(x) && x < 0; });

}  // namespace trine::ops

// is_pos_inf: whether x is the positive infinity.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_is_pos_inf = unary("is_pos_inf", []<Floating T>(T x) { return std::isinf(x) && x > 0; });

}  // namespace trine::ops

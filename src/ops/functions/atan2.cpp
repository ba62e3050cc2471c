// atan2: the angle of the point (y, x), inputs in this order; for complex numbers -i log((x + iy) / sqrt(x² + y²)).
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_atan2 = binary("atan2",
                                  []<Inexact T>(T y, T x) -> T {
                                    if constexpr (Complex<T>) {
                                      constexpr T kI{0, 1};
                                      return -kI * std::log((x + kI * y) / std::sqrt(x * x + y * y));
                                    } else {
                                      return std::atan2(y, x);
                                    }
                                  },
                                  {.host = {.op = arch::LoopOp::atan2, .cost = kHeavy}, .abroad = {.torch = "atan2"}});

}  // namespace trine::ops

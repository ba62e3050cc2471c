// sign: -1, 0 or 1; zeros and NaN stay, a complex number keeps its direction.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_sign = unary("sign",
                                []<Numeric T>(T x) -> T {
                                  if constexpr (Complex<T>) {
                                    return x == 0.0 ? T(0) : x / std::abs(x);
                                  } else if constexpr (Integer<T>) {
                                    return T(x > T(0)) - T(x < T(0));
                                  } else {
                                    return x == 0 || std::isnan(x) ? x : std::copysign(1.0, x);
                                  }
                                },
                                {.host = {.op = arch::LoopOp::sign}, .abroad = {.onnx = "Sign:9"}});

}  // namespace trine::ops

// cbrt: the real cube root, of negative numbers too; of complex numbers the principal one.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_cbrt = unary("cbrt",
                                []<Inexact T>(T x) -> T {
                                  if constexpr (Complex<T>) {
                                    return x == 0.0 ? x : std::pow(x, 1.0 / 3);
                                  } else {
                                    return std::cbrt(x);
                                  }
                                },
                                {.host = {.op = arch::LoopOp::cbrt, .cost = kHeavy}});

}  // namespace trine::ops

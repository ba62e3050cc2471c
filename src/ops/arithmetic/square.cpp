// square: x * x.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_square = unary("square",
                                  []<Numeric T>(T x) -> T {
                                    if constexpr (Complex<T>) {
                                      return {(x.real() - x.imag()) * (x.real() + x.imag()), 2 * x.real() * x.imag()};
                                    } else if constexpr (Integer<T>) {
                                      return T(uint64_t(x) * uint64_t(x));
                                    } else {
                                      return x * x;
                                    }
                                  },
                                  {.host = {.op = arch::LoopOp::mul}, .device = {.activation = "square"}});

}  // namespace trine::ops

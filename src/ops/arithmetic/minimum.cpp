// minimum: the lesser of two; NaN where either is, and -0 is below 0. Complex numbers compare by real, then imaginary
// part.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_minimum = binary("minimum",
                                    []<class T>(T a, T b) -> T {
                                      if constexpr (Logical<T>) {
                                        return a && b;
                                      } else if constexpr (Complex<T>) {
                                        if (std::isnan(a.real()) || std::isnan(a.imag())) return a;
                                        if (std::isnan(b.real()) || std::isnan(b.imag())) return b;
                                        return std::pair(a.real(), a.imag()) > std::pair(b.real(), b.imag()) ? b : a;
                                      } else {
                                        if constexpr (Floating<T>) {
                                          if (std::isnan(a) || std::isnan(b)) return a + b;
                                          if (a == b) return std::signbit(a) ? a : b;
                                        }
                                        return a > b ? b : a;
                                      }
                                    },
                                    {.host = {.op = arch::LoopOp::min}});

}  // namespace trine::ops

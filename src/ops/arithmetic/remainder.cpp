// remainder: of the division toward zero, with the sign of x; by zero it is x, of integers.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_remainder = binary("remainder",
                                      []<Real T>(T a, T b) -> T {
                                        if constexpr (Floating<T>) {
                                          return std::fmod(a, b);
                                        } else {
                                          if (b == T(0)) return a;
                                          return b == T(-1) && T(-1) < T(0) ? T(0) : a % b;
                                        }
                                      },
                                      {.host = {.op = arch::LoopOp::rem, .cost = kHeavy}});

}  // namespace trine::ops

// divide: x / y; integers toward zero, by zero all bits one, and the most negative by -1 is itself.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_divide = binary("divide",
                                   []<Numeric T>(T a, T b) -> T {
                                     if constexpr (Integer<T>) {
                                       if (b == T(0)) return T(-1);
                                       if (b == T(-1) && T(-1) < T(0)) return T(0 - uint64_t(a));
                                     }
                                     return a / b;
                                   },
                                   {.host = {.op = arch::LoopOp::div, .cost = 5}, .abroad = {.onnx = "Div:7"}});

}  // namespace trine::ops

// subtract: x - y; integers wrap.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_subtract = binary("subtract",
                                     []<Numeric T>(T a, T b) -> T {
                                       if constexpr (Integer<T>) {
                                         return T(uint64_t(a) - uint64_t(b));
                                       } else {
                                         return a - b;
                                       }
                                     },
                                     {.host = {.op = arch::LoopOp::sub}, .abroad = {.onnx = "Sub:7"}});

}  // namespace trine::ops

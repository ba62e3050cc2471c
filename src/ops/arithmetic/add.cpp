// add: x + y; integers wrap, booleans are or'ed. C1: both inputs and the result have one type.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_add =
    binary("add",
           []<class T>(T a, T b) -> T {
             if constexpr (Logical<T>) {
               return a || b;
             } else if constexpr (Integer<T>) {
               return T(uint64_t(a) + uint64_t(b));
             } else {
               return a + b;
             }
           },
           {.host = {.op = arch::LoopOp::add, .logical = arch::LoopOp::bit_or}, .abroad = {.onnx = "Add:7"}});

}  // namespace trine::ops

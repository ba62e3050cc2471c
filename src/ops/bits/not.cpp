// not: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_not = unary("not",
                               []<Bitwise T>(T x) -> T {
                                 if constexpr (Logical<T>) {
                                   return !x;
                                 } else {
                                   return ~x;
                                 }
                               },
                               {.host = {.op = arch::LoopOp::bit_not}, .abroad = {.onnx = "BitwiseNot:18 Not:1"}});

}  // namespace trine::ops

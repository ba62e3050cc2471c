// or: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_or = binary(
    "or", []<Bitwise T>(T a, T b) -> T { return a | b; },
    {.host = {.op = arch::LoopOp::bit_or},
     .abroad = {.onnx = "BitwiseOr:18 Or:7", .torch = "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor"}});

}  // namespace trine::ops

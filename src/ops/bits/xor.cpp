// xor: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_xor =
    binary("xor", []<Bitwise T>(T a, T b) -> T { return a ^ b; },
           {.host = {.op = arch::LoopOp::bit_xor},
            .abroad = {.onnx = "BitwiseXor:18 Xor:7",
                       .torch = "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor"}});

}  // namespace trine::ops

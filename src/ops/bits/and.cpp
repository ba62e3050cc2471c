// and: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_and =
    binary("and", []<Bitwise T>(T a, T b) -> T { return a & b; },
           {.host = {.op = arch::LoopOp::bit_and},
            .abroad = {.onnx = "And:7 BitwiseAnd:18",
                       .torch = "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor"}});

}  // namespace trine::ops

// shift_left: x * 2^y. C1: a y of the width or more, which a negative one is too, gives 0.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_shift_left = binary(
    "shift_left",
    []<Integer T>(const DtypeRow& of, T x, T y) -> T {
      return uint64_t(y) < uint64_t(of.bits) ? T(uint64_t(x) << y) : T(0);
    },
    {.host = {.op = arch::LoopOp::shl},
     .abroad = {.torch =
                    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar __lshift__.Scalar __lshift__.Tensor"}});

}  // namespace trine::ops

// shift_right_arithmetic: the highest bit fills. C1: a y of the width or more, or negative, leaves nothing but it.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_shift_right_arithmetic =
    binary("shift_right_arithmetic",
           []<Integer T>(const DtypeRow& of, T x, T y) -> T {
             const int up = 64 - of.bits;  // an unsigned x has its highest bit at the width, too
             const int64_t lifted = int64_t(uint64_t(x) << up);
             return T(lifted >> (uint64_t(y) < uint64_t(of.bits) ? up + int(y) : 63));
           },
           {.host = {.op = arch::LoopOp::shr_arith}});

}  // namespace trine::ops

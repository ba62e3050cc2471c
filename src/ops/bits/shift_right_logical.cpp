// shift_right_logical: zeros fill. C1: a y of the width or more, which a negative one is too, gives 0.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_shift_right_logical = binary("shift_right_logical",
                                                []<Integer T>(const DtypeRow& of, T x, T y) -> T {
                                                  const uint64_t own = uint64_t(x) & (~uint64_t{0} >> (64 - of.bits));
                                                  return uint64_t(y) < uint64_t(of.bits) ? T(own >> y) : T(0);
                                                },
                                                {.host = {.op = arch::LoopOp::shr_logical}});

}  // namespace trine::ops

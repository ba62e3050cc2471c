// and: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_and =
    binary("and", []<Bitwise T>(T a, T b) -> T { return a & b; }, {.host = {.op = arch::LoopOp::bit_and}});

}  // namespace trine::ops

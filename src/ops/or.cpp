// or: of bits, or of booleans.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_or =
    binary("or", []<Bitwise T>(T a, T b) -> T { return a | b; }, {.host = {.op = arch::LoopOp::bit_or}});

}  // namespace trine::ops

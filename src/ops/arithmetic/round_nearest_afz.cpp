// round_nearest_afz: the nearest whole number, ties away from zero.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_round_nearest_afz = unary("round_nearest_afz", []<Floating T>(T x) -> T { return std::round(x); },
                                             {.host = {.op = arch::LoopOp::round_away}});

}  // namespace trine::ops

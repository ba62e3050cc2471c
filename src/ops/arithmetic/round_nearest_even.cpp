// round_nearest_even: the nearest whole number, ties to even.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_round_nearest_even =
    unary("round_nearest_even", []<Floating T>(T x) -> T { return std::nearbyint(x); },
          {.host = {.op = arch::LoopOp::round_even}, .abroad = {.onnx = "Round:11"}});

}  // namespace trine::ops

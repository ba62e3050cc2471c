// floor: the greatest whole number not above x.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_floor = unary("floor", []<Floating T>(T x) -> T { return std::floor(x); },
                                 {.host = {.op = arch::LoopOp::floor}, .abroad = {.onnx = "Floor:1"}});

}  // namespace trine::ops

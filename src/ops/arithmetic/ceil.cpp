// ceil: the least whole number not below x.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_ceil = unary("ceil", []<Floating T>(T x) -> T { return std::ceil(x); },
                                {.host = {.op = arch::LoopOp::ceil}, .abroad = {.onnx = "Ceil:1"}});

}  // namespace trine::ops

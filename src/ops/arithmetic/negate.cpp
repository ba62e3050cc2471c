// negate: -x; integers wrap.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_negate = unary("negate",
                                  []<Numeric T>(T x) -> T {
                                    if constexpr (Integer<T>) {
                                      return T(0 - uint64_t(x));
                                    } else {
                                      return -x;
                                    }
                                  },
                                  {.host = {.op = arch::LoopOp::neg}, .abroad = {.onnx = "Neg:1"}});

}  // namespace trine::ops

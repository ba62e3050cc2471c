// logistic: 1 / (1 + e^-x).
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_logistic =
    unary("logistic",
          []<Inexact T>(T x) -> T {
            if (std::real(x) < 0) {  // e^-x would overflow where the result does not vanish yet
              const T small = std::exp(x);
              return small / (1.0 + small);
            }
            return 1.0 / (1.0 + std::exp(-x));
          },
          {.host = {.op = arch::LoopOp::logistic, .cost = kHeavy},
           .device = {.activation = "sigmoid"},
           .abroad = {.onnx = "Sigmoid:1", .torch = "sigmoid"}});

}  // namespace trine::ops

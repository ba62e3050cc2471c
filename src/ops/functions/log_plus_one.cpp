// log_plus_one: log(1 + x), exact where x is small.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_log_plus_one =
    unary("log_plus_one",
          []<Inexact T>(T x) -> T {
            if constexpr (Complex<T>) {
              const double re = x.real(), im = x.imag();
              const bool is_small = std::abs(re) < 0.5 && std::abs(im) < 0.5;
              return {is_small ? std::log1p(re * (2 + re) + im * im) / 2 : std::log(std::hypot(1 + re, im)),
                      std::atan2(im, 1 + re)};
            } else {
              return std::log1p(x);
            }
          },
          {.host = {.op = arch::LoopOp::log1p, .cost = kHeavy}, .abroad = {.torch = "log1p"}});

}  // namespace trine::ops

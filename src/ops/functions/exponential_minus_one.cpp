// exponential_minus_one: e^x - 1, exact where x is small.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_exponential_minus_one = unary(
    "exponential_minus_one",
    []<Inexact T>(T x) -> T {
      if constexpr (Complex<T>) {
        if (x.imag() == 0) return {std::expm1(x.real()), x.imag()};
        const double half = std::sin(x.imag() / 2);  // cos(y) - 1 = -2 sin²(y/2)
        return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
      } else {
        return std::expm1(x);
      }
    },
    {.host = {.op = arch::LoopOp::expm1, .cost = kHeavy}, .abroad = {.torch = "expm1"}});

}  // namespace trine::ops

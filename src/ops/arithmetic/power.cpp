// power: x^y. Integers by repeated squaring, wrapping; a negative power of one is 1 or -1, else 0.
// Complex zero to a positive power is zero, and anything to the power zero is one.
#include "ops/elementwise.h"

namespace trine::ops {

static std::complex<double> complex_power(std::complex<double> x, std::complex<double> y) {
  if (y == 0.0) return 1;
  if (x == 0.0 && y.real() > 0) return 0;
  return std::pow(x, y);
}

template <Integer T>
static T integer_power(T x, T y) {
  if (y < T(0)) return x == T(1) ? x : x == T(-1) ? (y & 1 ? x : T(1)) : T(0);
  uint64_t result = 1, square = uint64_t(x);
  for (uint64_t bits = uint64_t(y); bits; bits >>= 1, square *= square)
    if (bits & 1) result *= square;
  return T(result);
}

extern const Op op_power = binary("power",
                                  []<Numeric T>(T x, T y) -> T {
                                    if constexpr (Floating<T>) {
                                      return std::pow(x, y);
                                    } else if constexpr (Complex<T>) {
                                      return complex_power(x, y);
                                    } else {
                                      return integer_power(x, y);
                                    }
                                  },
                                  {.host = {.op = arch::LoopOp::pow, .cost = kHeavy}});

}  // namespace trine::ops

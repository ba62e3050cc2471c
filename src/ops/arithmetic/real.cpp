// real: the real part; a real number is its own.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_real = unary("real", []<Inexact T>(T x) {
  if constexpr (Complex<T>) {
    return x.real();
  } else {
    return x;
  }
});

}  // namespace trine::ops

// imag: the imaginary part; of a real number zero.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_imag = unary("imag", []<Inexact T>(T x) {
  if constexpr (Complex<T>) {
    return x.imag();
  } else {
    return T(0);
  }
});

}  // namespace trine::ops

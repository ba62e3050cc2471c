// conj: the complex conjugate; a real number is its own.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_conj = unary("conj", []<Inexact T>(T x) -> T {
  if constexpr (Complex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
});

}  // namespace trine::ops

// abs: |x|; of a complex number its length, a real one. The most negative integer stays as it is.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_abs = unary("abs", []<Numeric T>(T x) {
  if constexpr (Integer<T>) {
    return x < T(0) ? T(0 - uint64_t(x)) : x;
  } else {
    return std::abs(x);
  }
});

}  // namespace trine::ops

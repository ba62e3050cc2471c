// abs: |x|; of a complex number its length, a real one. The most negative integer stays as it is.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_abs =
    unary("abs",
          []<Numeric T>(const DtypeRow& row, T x) {
            if constexpr (Integer<T>) {
              return x < T(0) ? T(0 - uint64_t(x)) : x;
            } else if constexpr (Complex<T>) {
              // Squares of f32 are within f64; infinity has a length whatever the other part is.
              const double square = x.real() * x.real() + x.imag() * x.imag();
              return row.dtype == Dtype::c64 && !std::isnan(square) ? std::sqrt(square) : std::abs(x);
            } else {
              return std::abs(x);
            }
          },
          {.host = {.op = arch::LoopOp::abs}, .abroad = {.onnx = "Abs:1"}});

}  // namespace trine::ops

// multiply: x * y; integers wrap, booleans are and'ed.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_multiply =
    binary("multiply",
           []<class T>(T a, T b) -> T {
             if constexpr (Logical<T>) {
               return a && b;
             } else if constexpr (Integer<T>) {
               return T(uint64_t(a) * uint64_t(b));
             } else if constexpr (Complex<T>) {
               return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
             } else {
               return a * b;
             }
           },
           {.host = {.op = arch::LoopOp::mul, .logical = arch::LoopOp::bit_and}, .abroad = {.onnx = "Mul:7"}});

}  // namespace trine::ops

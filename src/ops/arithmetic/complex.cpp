// complex: the complex number of a real and an imaginary part. C1: parts are f32 or f64.
#include "ops/elementwise.h"

namespace trine::ops {

extern const Op op_complex = binary("complex", []<Floating T>(T re, T im) { return std::complex<double>(re, im); });

}  // namespace trine::ops

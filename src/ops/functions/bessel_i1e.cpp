// bessel_i1e: e^-|x| times the modified Bessel function of the first kind, order one.
#include "ops/elementwise.h"
#include "ops/functions/special.h"

namespace trine::ops {

extern const Op op_bessel_i1e = unary("bessel_i1e", []<Floating T>(T x) -> T { return bessel_i1e(x); });

}  // namespace trine::ops

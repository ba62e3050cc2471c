// polygamma: the n-th derivative of digamma at x, inputs (n, x); NaN unless n is 0, 1, 2 ...
#include "ops/elementwise.h"
#include "ops/functions/special.h"

namespace trine::ops {

extern const Op op_polygamma = binary("polygamma", []<Floating T>(T n, T x) -> T { return polygamma(n, x); });

}  // namespace trine::ops

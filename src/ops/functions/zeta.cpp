// zeta: the Hurwitz zeta function, the sum over k >= 0 of (q + k)^-s, inputs (s, q).
#include "ops/elementwise.h"
#include "ops/functions/special.h"

namespace trine::ops {

extern const Op op_zeta =
    binary("zeta", []<Floating T>(T s, T q) -> T { return zeta(s, q); }, {.abroad = {.torch = "special_zeta"}});

}  // namespace trine::ops

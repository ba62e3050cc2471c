// mish: x · tanh(log(1 + e^x)); 0 at -infinity, which is its limit.
#include "ops/formula.h"

namespace trine::ops {

// tanh(log(1 + e)) = e(e + 2) / (e(e + 2) + 2): nothing cancels, and beyond the bounds the quotient is 1 or 0.
extern const Op op_mish = formula("mish",
                                  [](auto x) {
                                    using std::exp;
                                    const auto e = exp(at_most(30, x));
                                    const auto grown = e * (e + 2.0);
                                    return at_least(-1000, x) * (grown / (grown + 2.0));
                                  },
                                  {.device = {.activation = "mish"}, .abroad = {.onnx = "Mish:18", .torch = "mish"}});

}  // namespace trine::ops

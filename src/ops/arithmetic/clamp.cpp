// clamp: min(max(x, low), high), inputs (low, x, high); NaN where any of them is.
// C1: one dtype. C2: low and high have x's dims or are scalars. C3: complex numbers are ordered by their real parts,
// low stays before an x that is no larger and what is NaN yields, as in XLA.
#include "ops/elementwise.h"

namespace trine::ops {

namespace {

struct Clamp {
  template <class T>
  T operator()(T low, T x, T high) const {
    if constexpr (Complex<T>) {
      const T above = low.real() >= x.real() ? low : x;
      return above.real() <= high.real() ? above : high;
    } else {
      return ordered(low, x, high);
    }
  }

 private:
  template <class T>
  static T ordered(T low, T x, T high) {
    if constexpr (Floating<T>)
      if (std::isnan(low) || std::isnan(x) || std::isnan(high)) return low + x + high;
    return std::min(std::max(x, low), high);
  }
};

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[1];
  for (const ir::Type& bound : {call.inputs[0], call.inputs[2]})
    if (bound.dtype != x.dtype || bound.is_token || (!bound.dims.empty() && bound.dims != x.dims))
      return fail(Code::invalid, cat("the bound ", ir::text(bound), " is neither a scalar of nor like ", ir::text(x)));
  const ir::Type alike[] = {x, x, x};
  return infer_each<3, Clamp>({alike, call.attrs});
}

}  // namespace

extern const Op op_clamp{.name = "clamp",
                         .kind = OpKind::elementwise,
                         .arity = 3,
                         .infer = infer,
                         .eval = [](const Eval& e) { return each<3>(e, Clamp{}); },
                         .host = {.op = arch::LoopOp::clamp, .cost = 2}};

}  // namespace trine::ops

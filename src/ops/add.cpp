// add: x + y; integers wrap, booleans are or'ed. C1: both inputs and the result have one type.
#include "ops/elementwise.h"

namespace trine::ops {

struct Add {
  template <class T>
    requires Floating<T> || Complex<T>
  T operator()(T a, T b) const {
    return a + b;
  }
  template <Integer T>
  T operator()(T a, T b) const {
    return T(uint64_t(a) + uint64_t(b));
  }
  template <Logical T>
  T operator()(T a, T b) const {
    return a || b;
  }
};

extern const Op op_add{
    .name = "add", .kind = OpKind::elementwise, .arity = 2, .infer = same_as_all, .eval = [](const Eval& e) {
      return each_binary(e, Add{});
    }};

}  // namespace trine::ops

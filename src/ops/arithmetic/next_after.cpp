// next_after: the float nearest to x in the direction of y, in the inputs' own format; y itself where they are equal.
#include "ops/elementwise.h"

namespace trine::ops {

namespace {

template <class E>
typename E::Storage step(typename E::Storage from, typename E::Storage to) {
  using Bits = typename E::Bits;
  const double x = E::load(from), y = E::load(to);
  if (std::isnan(x) || std::isnan(y)) return E::store(x + y);
  if (x == y) return to;
  const Bits sign = Bits(Bits(1) << (E::kBits - 1));
  if (x == 0) return std::bit_cast<typename E::Storage>(Bits(y < 0 ? sign | 1 : 1));
  const auto bits = std::bit_cast<Bits>(from);
  const bool grows = (x < y) == (x > 0);  // away from zero
  const auto next = Bits(grows ? bits + 1 : bits - 1);
  const bool has_one_zero = E::kRow.format.nan_is_minus_zero && next == sign;
  return std::bit_cast<typename E::Storage>(has_one_zero ? Bits(0) : next);
}

Inferred infer(const Call& call) {
  return infer_each<2, decltype([]<Floating T>(T x, T) { return x; })>(call);
}

Result<void> eval(const Eval& e) {
  return dispatch_element(e.in[0].dtype, [&](auto element) -> Result<void> {
    using E = decltype(element);
    if constexpr (E::kIsFloating) {
      using Storage = typename E::Storage;
      const auto *x = e.in[0].as<const Storage>(), *y = e.in[1].as<const Storage>();
      for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) e.out[0].as<Storage>()[i] = step<E>(x[i], y[i]);
      return {};
    } else {
      return no_dtype(e.node.op.name(), E::kDtype);
    }
  });
}

}  // namespace

extern const Op op_next_after{.name = "next_after",
                              .kind = OpKind::elementwise,
                              .arity = 2,
                              .infer = infer,
                              .eval = eval,
                              .host = {.op = arch::LoopOp::next_after, .cost = 3}};

}  // namespace trine::ops

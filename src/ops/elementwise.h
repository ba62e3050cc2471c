// Reference meanings of elementwise ops: a function on wide values (double, int64, uint64, bool, complex<double>)
// applied to each element. A lambda that does not compile for a class of dtypes is refused for it, by the op's name.
#pragma once

#include <complex>

#include "base/text.h"
#include "ops/shape.h"

namespace trine::ops {

inline Error no_dtype(const Eval& e, Dtype dtype) {
  return fail(Code::unsupported, cat(e.node.op, " is not defined for ", row(dtype).name));
}

// out[i] = f(in[i]), result of the same dtype, rounded once.
template <class F>
Result<void> each_unary(const Eval& e, F f) {
  return dispatch_element(e.in[0].dtype, [&](auto element) -> Result<void> {
    using E = decltype(element);
    using W = typename E::Wide;
    if constexpr (std::is_invocable_r_v<W, F, W>) {
      const auto* in = e.in[0].as<const typename E::Storage>();
      auto* out = e.out[0].as<typename E::Storage>();
      for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) out[i] = E::store(f(E::load(in[i])));
      return {};
    } else {
      return no_dtype(e, E::kDtype);
    }
  });
}

template <class F>
Result<void> each_binary(const Eval& e, F f) {
  return dispatch_element(e.in[0].dtype, [&](auto element) -> Result<void> {
    using E = decltype(element);
    using W = typename E::Wide;
    if constexpr (std::is_invocable_r_v<W, F, W, W>) {
      const auto* a = e.in[0].as<const typename E::Storage>();
      const auto* b = e.in[1].as<const typename E::Storage>();
      auto* out = e.out[0].as<typename E::Storage>();
      for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) out[i] = E::store(f(E::load(a[i]), E::load(b[i])));
      return {};
    } else {
      return no_dtype(e, E::kDtype);
    }
  });
}

// Classes of wide types, for the constraints of lambdas.
template <class T>
concept Floating = std::same_as<T, double>;
template <class T>
concept Integer = std::same_as<T, int64_t> || std::same_as<T, uint64_t>;
template <class T>
concept Logical = std::same_as<T, bool>;
template <class T>
concept Complex = std::same_as<T, std::complex<double>>;
template <class T>
concept Inexact = Floating<T> || Complex<T>;
template <class T>
concept Numeric = Floating<T> || Integer<T> || Complex<T>;
template <class T>
concept Bitwise = Integer<T> || Logical<T>;

}  // namespace trine::ops

// Reference meanings of elementwise ops: a function on wide values (double, int64, uint64, bool, complex<double>)
// applied to each element. The function's own constraints say for which dtypes the op is defined, and what it returns
// says the result's dtype; the type rule and the meaning both follow from it, so a row is a name and a function.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <concepts>
#include <optional>
#include <utility>

#include "base/text.h"
#include "ops/shape.h"
#include "ops/wide.h"

namespace trine::ops {

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
concept Real = Floating<T> || Integer<T>;
template <class T>
concept Numeric = Real<T> || Complex<T>;
template <class T>
concept Bitwise = Integer<T> || Logical<T>;

inline Error no_dtype(std::string_view op, Dtype dtype) {
  return fail(Code::unsupported, cat(op, op.empty() ? "" : " ", "is not defined for ", row(dtype).name));
}

// F takes N wide values W, or before them the inputs' dtype row, for what depends on the width.
template <class F, class W, size_t N>
struct Applied {
  template <size_t>
  using Same = W;
  template <class... Before, size_t... I>
  static constexpr bool takes(std::index_sequence<I...>) {
    return std::is_invocable_v<const F&, Before..., Same<I>...>;
  }
  template <class... Before, size_t... I>
  static auto result(std::index_sequence<I...>) -> std::invoke_result_t<const F&, Before..., Same<I>...>;

  static constexpr auto kEach = std::make_index_sequence<N>{};
  static constexpr bool kTakesRow = takes<const DtypeRow&>(kEach);
  static constexpr bool kIsDefined = kTakesRow || takes<>(kEach);
  static auto result_of() {
    if constexpr (kTakesRow) {
      return decltype(result<const DtypeRow&>(kEach)){};
    } else {
      return decltype(result<>(kEach)){};
    }
  }
};

// The dtype of a wide result R made from elements of `from`, whose wide type is W.
template <class R, class W>
std::optional<Dtype> result_dtype(Dtype from) {
  if constexpr (std::same_as<R, W>) {
    return from;
  } else if constexpr (Logical<R>) {
    return Dtype::boolean;
  } else if constexpr (Complex<W>) {
    return row(from).element;
  } else {
    static_assert(Complex<R>, "a new kind of result");
    if (from != Dtype::f32 && from != Dtype::f64) return std::nullopt;
    return from == Dtype::f32 ? Dtype::c64 : Dtype::c128;
  }
}

// The type rule of an F of N inputs alike.
template <size_t N, class F>
Inferred infer_each(const Call& call) {
  TRY(same_as_all(call));
  const Dtype dtype = call.inputs[0].dtype;
  if (row(dtype).kind == DtypeKind::packed) return no_dtype("", dtype);
  return dispatch_wide(dtype, [&]<class W>() -> Inferred {
    if constexpr (Applied<F, W, N>::kIsDefined) {
      using R = decltype(Applied<F, W, N>::result_of());
      if (auto made = result_dtype<R, W>(dtype)) return one_type(*made, call.inputs[0].dims);
    }
    return no_dtype("", dtype);
  });
}

// out[i] = f(in[0][i], ... in[N-1][i]). A scalar input of a tensor op is the same at every i.
template <size_t N, class F>
Result<void> each(const Eval& e, const F& f) {
  constexpr int64_t kChunk = 256;
  const Dtype dtype = e.in[N - 1].dtype;
  return dispatch_wide(dtype, [&]<class W>() -> Result<void> {
    using How = Applied<F, W, N>;
    if constexpr (How::kIsDefined) {
      decltype(How::result_of()) out[kChunk];
      W in[N][kChunk];
      const int64_t count = e.out[0].elements();
      for (int64_t at = 0; at < count; at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        for (size_t k = 0; k < N; ++k) {
          const bool is_scalar = e.in[k].dims.empty() && !e.out[0].dims.empty();
          load_wide(e.in[k], is_scalar ? 0 : at, is_scalar ? 1 : n, in[k]);
          if (is_scalar) std::fill_n(in[k] + 1, n - 1, in[k][0]);
        }
        [&]<size_t... I>(std::index_sequence<I...>) {
          for (int64_t i = 0; i < n; ++i) {
            if constexpr (How::kTakesRow) {
              out[i] = f(row(dtype), in[I][i]...);
            } else {
              out[i] = f(in[I][i]...);
            }
          }
        }(How::kEach);
        store_wide(out, n, e.out[0], at);
      }
      return {};
    } else {
      return no_dtype(e.node.op.name(), dtype);
    }
  });
}

template <class F>
Result<void> each_unary(const Eval& e, const F& f) {
  return each<1>(e, f);
}
template <class F>
Result<void> each_binary(const Eval& e, const F& f) {
  return each<2>(e, f);
}

// The row of an op that is just a function of its elements.
template <size_t N, class F>
constexpr Op elementwise(std::string_view name, const Columns& columns) {
  return {.name = name,
          .kind = OpKind::elementwise,
          .arity = int(N),
          .infer = infer_each<N, F>,
          .eval = [](const Eval& e) { return each<N>(e, F{}); },
          .host = columns.host,
          .device = columns.device,
          .cut = columns.cut,
          .abroad = columns.abroad};
}
template <class F>
constexpr Op unary(std::string_view name, F, const Columns& columns = {}) {
  return elementwise<1, F>(name, columns);
}
template <class F>
constexpr Op binary(std::string_view name, F, const Columns& columns = {}) {
  return elementwise<2, F>(name, columns);
}

}  // namespace trine::ops

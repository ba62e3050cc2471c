// Tensors as arrays of wide values (double, int64, uint64, bool, complex<double>): what meanings that mix many elements
// compute in. Loading converts between classes where it must; storing rounds once, and wraps integers.
#pragma once

#include <complex>
#include <memory>
#include <span>

#include "base/tensor.h"

namespace trine::ops {

using Complex128 = std::complex<double>;

template <class W>
struct WideArray {
  std::unique_ptr<W[]> data = {};
  int64_t size = 0;

  WideArray() = default;
  explicit WideArray(int64_t n) : data(new W[size_t(n)]()), size(n) {}  // zeros
  static WideArray unset(int64_t n) {  // for who writes every element before one is read
    WideArray out;
    out.data = std::make_unique_for_overwrite<W[]>(size_t(n));
    out.size = n;
    return out;
  }
  W& operator[](int64_t i) { return data[size_t(i)]; }
  const W& operator[](int64_t i) const { return data[size_t(i)]; }
  W* at(int64_t i) { return data.get() + i; }
  const W* at(int64_t i) const { return data.get() + i; }
};

// Elements start .. start+count of `from`, row-major.
template <class W>
void load_wide(const TensorView& from, int64_t start, int64_t count, W* to);
template <class W>
void store_wide(const W* from, int64_t count, const TensorView& to, int64_t start);

template <class W>
WideArray<W> load_wide(const TensorView& from) {
  auto out = WideArray<W>::unset(from.elements());
  load_wide<W>(from, 0, out.size, out.data.get());
  return out;
}

template <class W>
void store_wide(const WideArray<W>& from, const TensorView& to) {
  store_wide<W>(from.data.get(), from.size, to, 0);
}

// Indices as int64; unsigned ones past its range become its largest.
WideArray<int64_t> load_indices(const TensorView& from);

// Calls f.operator()<W>() with the wide type of `dtype`.
template <class F>
auto dispatch_wide(Dtype dtype, F&& f) {
  switch (row(dtype).kind) {
    case DtypeKind::complex:
      return f.template operator()<Complex128>();
    case DtypeKind::signed_int:
      return f.template operator()<int64_t>();
    case DtypeKind::unsigned_int:
      return f.template operator()<uint64_t>();
    case DtypeKind::boolean:
      return f.template operator()<bool>();
    default:
      return f.template operator()<double>();
  }
}

// Arithmetic as the ops of these names: integers wrap, booleans or and and.
template <class W>
W wide_add(W a, W b) {
  if constexpr (std::is_same_v<W, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<W>) {
    return W(uint64_t(a) + uint64_t(b));
  } else {
    return a + b;
  }
}

template <class W>
W wide_multiply(W a, W b) {
  if constexpr (std::is_same_v<W, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<W>) {
    return W(uint64_t(a) * uint64_t(b));
  } else if constexpr (std::is_same_v<W, Complex128>) {  // plain: no detour for infinities, as the hardware multiplies
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

// a is below b; NaN is below nothing. Complex numbers compare by real part, then imaginary.
template <class W>
bool wide_less(W a, W b) {
  if constexpr (std::is_same_v<W, Complex128>) {
    return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
  } else if constexpr (std::is_same_v<W, double>) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  } else {
    return a < b;
  }
}

template <class W>
bool wide_is_nan(W a) {
  if constexpr (std::is_same_v<W, Complex128>) {
    return std::isnan(a.real()) || std::isnan(a.imag());
  } else if constexpr (std::is_same_v<W, double>) {
    return std::isnan(a);
  } else {
    return false;
  }
}

}  // namespace trine::ops

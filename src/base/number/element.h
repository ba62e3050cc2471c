// Elements of host tensors: each dtype but the packed carriers as a C++ type to store and a wide one to compute in.
// Not the chip's tensors: here sub-byte elements take a byte each. Invariant: store(load(x)) == x but for NaN payloads.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/number/number.h"
#include "base/result.h"

namespace trine {

// One rounding, not two: the double's lost bits stick to the float's last bit, below what any narrow format keeps.
inline float to_float_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // toward zero first
  return std::bit_cast<float>(bits | 1);
}

template <Dtype D>
struct Element {
  static constexpr Dtype kDtype = D;
  static constexpr const DtypeRow& kRow = kDtypes[size_t(D)];
  static constexpr bool kIsComplex = kRow.kind == DtypeKind::complex;
  static constexpr bool kIsFloating = kRow.kind == DtypeKind::floating;
  static constexpr bool kIsBoolean = kRow.kind == DtypeKind::boolean;
  static constexpr bool kIsSigned = kRow.kind == DtypeKind::signed_int;
  static constexpr bool kIsInteger = kIsSigned || kRow.kind == DtypeKind::unsigned_int;
  static constexpr int kBits = kRow.bits;
  using Part = std::conditional_t<D == Dtype::c64, float, double>;
  using Bits = typename StorageOf<kBits == 128 ? 64 : kBits, kIsSigned>::Type;
  using Storage =
      std::conditional_t<kIsComplex, std::complex<Part>,
                         std::conditional_t<D == Dtype::f32, float, std::conditional_t<D == Dtype::f64, double, Bits>>>;
  using Wide = std::conditional_t<
      kIsComplex, std::complex<double>,
      std::conditional_t<kIsFloating, double,
                         std::conditional_t<kIsBoolean, bool, std::conditional_t<kIsSigned, int64_t, uint64_t>>>>;

  static Wide load(Storage s) {
    if constexpr (kIsComplex) {
      return {s.real(), s.imag()};
    } else if constexpr (D == Dtype::f32 || D == Dtype::f64) {
      return s;
    } else if constexpr (kIsFloating) {
      return widen_float<kRow.format>(s);
    } else if constexpr (kIsBoolean) {
      return s != 0;
    } else if constexpr (kBits < 8) {
      return int_from_bits<Storage, kBits>(static_cast<uint64_t>(s));  // hosts leave the other bits as they like
    } else {
      return s;
    }
  }
  // Floats round to nearest even; integers wrap.
  static Storage store(Wide w) {
    if constexpr (kIsComplex) {
      return {static_cast<Part>(w.real()), static_cast<Part>(w.imag())};
    } else if constexpr (D == Dtype::f32 || D == Dtype::f64) {
      return static_cast<Storage>(w);
    } else if constexpr (kIsFloating) {
      return static_cast<Storage>(round_float<kRow.format>(to_float_odd(w)));
    } else if constexpr (kIsBoolean) {
      return w;
    } else if constexpr (kBits < 8) {
      return int_from_bits<Storage, kBits>(static_cast<uint64_t>(w));
    } else {
      return static_cast<Storage>(w);
    }
  }
};

// Calls f(Element<D>{}) for the D that `dtype` is; it must not be a packed carrier. f returns the same type for all.
template <class F>
auto dispatch_element(Dtype dtype, F&& f) {
  using R = decltype(f(Element<Dtype::f32>{}));
  return [&]<size_t... I>(std::index_sequence<I...>) -> R {
    using Call = R (*)(F&);
    static constexpr Call kCalls[] = {[]() -> Call {
      if constexpr (kDtypes[I].kind == DtypeKind::packed) {
        return nullptr;
      } else {
        return [](F& g) -> R { return g(Element<Dtype(I)>{}); };
      }
    }()...};
    CHECK(kCalls[size_t(dtype)], "a packed carrier has no elements");
    return kCalls[size_t(dtype)](f);
  }(std::make_index_sequence<size_t(Dtype::count)>{});
}

}  // namespace trine

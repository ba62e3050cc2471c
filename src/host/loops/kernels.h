// The interpreter's kernels as templates over a build B: loops that the compiler turns into vector code, and tables
// from op and lane to loop. Included only by the files that build them (ops.h).
// Invariant: a chunk is read at index i only before it is written at i, so results may replace inputs.
#pragma once

#include <cstring>

#include "base/number/convert.h"
#include "base/number/element.h"
#include "host/loops/divide.h"
#include "host/loops/lanes.h"
#include "host/loops/math_f64.h"
#include "host/loops/ops.h"
#include "host/loops/strided.h"

namespace trine::host {

constexpr int kVectorBytes = 16;  // SSE2, NEON; a target pragma defines no macro that would say more

template <class B>
struct Loops {
  using Op = arch::LoopOp;
  using Math = LaneMath<PlainLanes<B>>;

  template <class D, class A, class F>
  static void one(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    auto* to = static_cast<D*>(d);
    auto* from = static_cast<const A*>(a);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = F{}(from[i], aux);
  }

  template <class D, class A, class F, bool kA, bool kB>
  static void two(void* d, const void* a, const void* b, const void*, int64_t n, const LoopAux& aux) {
    auto* to = static_cast<D*>(d);
    auto *x = static_cast<const A*>(a), *y = static_cast<const A*>(b);
    const A x0 = *x, y0 = *y;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = F{}(kA ? x0 : x[i], kB ? y0 : y[i], aux);
  }

  template <class T, bool kB, bool kC>
  static void choose(void* d, const void* a, const void* b, const void* c, int64_t n, const LoopAux&) {
    auto* to = static_cast<T*>(d);
    auto* m = static_cast<const int32_t*>(a);
    auto *x = static_cast<const T*>(b), *y = static_cast<const T*>(c);
    const T x0 = *x, y0 = *y;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T p = kB ? x0 : x[i], q = kC ? y0 : y[i];
      to[i] = m[i] ? p : q;
    }
  }

  template <class T, class F>
  static void three(void* d, const void* a, const void* b, const void* c, int64_t n, const LoopAux&) {
    auto* to = static_cast<T*>(d);
    auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = F{}(x[i], y[i], z[i]);
  }

  template <class D, class A, class F>
  static LoopFn map_one(const LoopFnKey& k, F) {
    return k.a_uniform ? nullptr : one<D, A, F>;
  }
  template <class D, class A, class F>
  static LoopFn map_two(const LoopFnKey& k, F) {
    if (k.a_uniform) return k.b_uniform ? nullptr : two<D, A, F, true, false>;
    return k.b_uniform ? two<D, A, F, false, true> : two<D, A, F, false, false>;
  }
  template <class T>
  static LoopFn map_select(const LoopFnKey& k) {
    if (k.a_uniform) return nullptr;
    if (k.b_uniform) return k.c_uniform ? choose<T, true, true> : choose<T, true, false>;
    return k.c_uniform ? choose<T, false, true> : choose<T, false, false>;
  }

  // --- ops that floats and integers share
  template <class T>
  static LoopFn compare(const LoopFnKey& k) {
    using I = int32_t;
    switch (k.op) {
      case Op::eq:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a == b); });
      case Op::ne:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a != b); });
      case Op::lt:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a < b); });
      case Op::le:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a <= b); });
      case Op::gt:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a > b); });
      case Op::ge:
        return map_two<I, T>(k, [](T a, T b, const LoopAux&) { return -I(a >= b); });
      default:
        return nullptr;
    }
  }

  template <class T>
  static LoopFn bitwise(const LoopFnKey& k) {
    switch (k.op) {
      case Op::bit_and:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(a & b); });
      case Op::bit_or:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(a | b); });
      case Op::bit_xor:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(a ^ b); });
      case Op::bit_not:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return T(~a); });
      default:
        return nullptr;
    }
  }

  template <class T>
  static LoopFn integer(const LoopFnKey& k) {
    using N = IntLane<B, T>;
    if constexpr (std::is_same_v<T, int64_t>) {
      if (k.op == Op::div) return DivideLoops<B>::template find<false>(k);
      if (k.op == Op::rem) return DivideLoops<B>::template find<true>(k);
    }
    switch (k.op) {
      case Op::add:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::add(a, b); });
      case Op::sub:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::sub(a, b); });
      case Op::mul:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::mul(a, b); });
      case Op::div:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::div(a, b); });
      case Op::rem:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::rem(a, b); });
      case Op::pow:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::pow(a, b); });
      case Op::max:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a > b ? a : b; });
      case Op::min:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a < b ? a : b; });
      case Op::shl:
        return map_two<T, T>(k, [](T a, T b, const LoopAux& x) { return N::shl(a, b, x.bits); });
      case Op::shr_arith:
        return map_two<T, T>(k, [](T a, T b, const LoopAux& x) { return N::shr_arith(a, b, x.bits); });
      case Op::shr_logical:
        return map_two<T, T>(k, [](T a, T b, const LoopAux& x) { return N::shr_logical(a, b, x.bits); });
      case Op::neg:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return N::neg(a); });
      case Op::abs:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return N::abs(a); });
      case Op::sign:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return T((a > 0) - (a < 0)); });
      case Op::popcount:
        return map_one<T, T>(k, [](T a, const LoopAux& x) { return N::popcount(a, x.bits); });
      case Op::clz:
        return map_one<T, T>(k, [](T a, const LoopAux& x) { return N::clz(a, x.bits); });
      case Op::clamp:
        if (k.a_uniform || k.b_uniform || k.c_uniform) return nullptr;
        return three<T, decltype([](T low, T x, T high) {
                       T up = x < low ? low : x;
                       return up > high ? high : up;
                     })>;
      default:
        return bitwise<T>(k);
    }
  }

  template <class T>
  static LoopFn floating(const LoopFnKey& k) {
    using N = FloatLane<B, T>;
    switch (k.op) {
      case Op::add:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a + b; });
      case Op::sub:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a - b; });
      case Op::mul:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a * b; });
      case Op::div:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return a / b; });
      case Op::rem:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(std::fmod(a, b)); });
      case Op::max:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::max(a, b); });
      case Op::min:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return N::min(a, b); });
      case Op::next_after:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return std::nextafter(a, b); });
      case Op::neg:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return -a; });
      case Op::abs:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return std::fabs(a); });
      case Op::sign:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return N::sign(a); });
      case Op::is_finite:
        return map_one<int32_t, T>(k, [](T a, const LoopAux&) { return -int32_t(a - a == T(0)); });
      case Op::round_even:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return std::nearbyint(a); });
      case Op::round_away:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return N::round_away(a); });
      case Op::floor:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return std::floor(a); });
      case Op::ceil:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return std::ceil(a); });
      case Op::sqrt:
        return map_one<T, T>(k, [](T a, const LoopAux&) { return std::sqrt(a); });
      case Op::reduce_precision:
        return map_one<T, T>(k, [](T a, const LoopAux& x) { return N::reduce_precision(a, x.exponent, x.mantissa); });
      case Op::clamp:
        if (k.a_uniform || k.b_uniform || k.c_uniform) return nullptr;
        return three<T, decltype([](T low, T x, T high) { return N::min(N::max(x, low), high); })>;
      default:
        return nullptr;
    }
  }

  // --- elementary functions
  static LoopFn math_f32(const LoopFnKey& k) {
    auto fast = [&](auto f) { return map_one<float, float>(k, f); };
    switch (k.op) {
      case Op::exp:
        return fast([](float x, const LoopAux&) { return Math::exp(x); });
      case Op::expm1:
        return fast([](float x, const LoopAux&) { return Math::expm1(x); });
      case Op::log:
        return fast([](float x, const LoopAux&) { return Math::log(x); });
      case Op::log1p:
        return fast([](float x, const LoopAux&) { return Math::log1p(x); });
      case Op::logistic:
        return fast([](float x, const LoopAux&) { return Math::logistic(x); });
      case Op::tanh:
        return fast([](float x, const LoopAux&) { return Math::tanh(x); });
      case Op::erf:
        return fast([](float x, const LoopAux&) { return Math::erf(x); });
      case Op::erfc:
        return fast([](float x, const LoopAux&) { return Math::erfc(x); });
      case Op::erf_inv:
        return fast([](float x, const LoopAux&) { return Math::erf_inv(x); });
      case Op::rsqrt:
        return fast([](float x, const LoopAux&) { return 1.0f / __builtin_sqrtf(x); });
      case Op::sin:
        return trig(k, [](float x) { return Math::sin(x); }, [](double x) { return std::sin(x); });
      case Op::cos:
        return trig(k, [](float x) { return Math::cos(x); }, [](double x) { return std::cos(x); });
      case Op::tan:
        return trig(k, [](float x) { return Math::tan(x); }, [](double x) { return std::tan(x); });
      default:
        return through_f64(k);
    }
  }

  static LoopFn through_f64(const LoopFnKey& k) {
    using Double = DoubleMath<B>;
    auto wide = [&](auto f) { return map_one<float, float>(k, f); };
    switch (k.op) {
      case Op::pow:
        return map_two<float, float>(k, [](float a, float b, const LoopAux&) { return float(Double::pow(a, b)); });
      case Op::atan2:
        return map_two<float, float>(k, [](float a, float b, const LoopAux&) { return float(Double::atan2(a, b)); });
      case Op::cbrt:
        return wide([](float x, const LoopAux&) { return float(Double::cbrt(x)); });
      case Op::asin:
        return wide([](float x, const LoopAux&) { return float(Double::asin(x)); });
      case Op::acos:
        return wide([](float x, const LoopAux&) { return float(Double::acos(x)); });
      case Op::atan:
        return wide([](float x, const LoopAux&) { return float(Double::atan(x)); });
      case Op::sinh:
        return wide([](float x, const LoopAux&) { return float(Double::sinh(x)); });
      case Op::cosh:
        return wide([](float x, const LoopAux&) { return float(Double::cosh(x)); });
      case Op::asinh:
        return wide([](float x, const LoopAux&) { return float(Double::asinh(x)); });
      case Op::acosh:
        return wide([](float x, const LoopAux&) { return float(Double::acosh(x)); });
      case Op::atanh:
        return wide([](float x, const LoopAux&) { return float(Double::atanh(x)); });
      default:
        return math_of<float>(k);
    }
  }

  // Arguments too large for the short reduction are done again, one by one.
  template <class F, class S>
  static LoopFn trig(const LoopFnKey& k, F, S) {
    if (k.a_uniform) return nullptr;
    return [](void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
      constexpr int64_t kPart = 64;
      auto* to = static_cast<float*>(d);
      auto* from = static_cast<const float*>(a);
      for (int64_t i = 0; i < n; i += kPart) {
        int64_t m = n - i < kPart ? n - i : kPart;
        float saved[kPart];
        int32_t most = 0;
        std::memcpy(saved, from + i, size_t(m) * 4);
        for (int64_t j = 0; j < m; ++j) {
          int32_t x = std::bit_cast<int32_t>(saved[j]) & 0x7fffffff;
          most = x > most ? x : most;
        }
        for (int64_t j = 0; j < m; ++j) to[i + j] = F{}(saved[j]);
        if (most <= std::bit_cast<int32_t>(Math::kTrigMax)) continue;
        for (int64_t j = 0; j < m; ++j) {
          if (!(__builtin_fabsf(saved[j]) <= Math::kTrigMax)) to[i + j] = float(S{}(double(saved[j])));
        }
      }
    };
  }

  static LoopFn math_f64(const LoopFnKey& k) {
    using Wide = WideMath<B>;
    auto fast = [&](auto f) { return map_one<double, double>(k, f); };
    switch (k.op) {
      case Op::exp:
        return fast([](double x, const LoopAux&) { return Wide::exp(x); });
      case Op::logistic:
        return fast([](double x, const LoopAux&) { return Wide::logistic(x); });
      case Op::tanh:
        return fast([](double x, const LoopAux&) { return Wide::tanh(x); });
      default:
        return math_of<double>(k);
    }
  }

  // Through the C library in f64.
  template <class T>
  static LoopFn math_of(const LoopFnKey& k) {
    auto slow = [&](auto f) { return map_one<T, T>(k, f); };
    switch (k.op) {
      case Op::pow:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(std::pow(double(a), double(b))); });
      case Op::atan2:
        return map_two<T, T>(k, [](T a, T b, const LoopAux&) { return T(std::atan2(double(a), double(b))); });
      case Op::expm1:
        return slow([](T x, const LoopAux&) { return T(std::expm1(double(x))); });
      case Op::log:
        return slow([](T x, const LoopAux&) { return T(std::log(double(x))); });
      case Op::log1p:
        return slow([](T x, const LoopAux&) { return T(std::log1p(double(x))); });
      case Op::sin:
        return slow([](T x, const LoopAux&) { return T(std::sin(double(x))); });
      case Op::cos:
        return slow([](T x, const LoopAux&) { return T(std::cos(double(x))); });
      case Op::tan:
        return slow([](T x, const LoopAux&) { return T(std::tan(double(x))); });
      case Op::rsqrt:
        return slow([](T x, const LoopAux&) { return T(1) / std::sqrt(x); });
      case Op::cbrt:
        return slow([](T x, const LoopAux&) { return T(std::cbrt(double(x))); });
      case Op::asin:
        return slow([](T x, const LoopAux&) { return T(std::asin(double(x))); });
      case Op::acos:
        return slow([](T x, const LoopAux&) { return T(std::acos(double(x))); });
      case Op::atan:
        return slow([](T x, const LoopAux&) { return T(std::atan(double(x))); });
      case Op::sinh:
        return slow([](T x, const LoopAux&) { return T(std::sinh(double(x))); });
      case Op::cosh:
        return slow([](T x, const LoopAux&) { return T(std::cosh(double(x))); });
      case Op::asinh:
        return slow([](T x, const LoopAux&) { return T(std::asinh(double(x))); });
      case Op::acosh:
        return slow([](T x, const LoopAux&) { return T(std::acosh(double(x))); });
      case Op::atanh:
        return slow([](T x, const LoopAux&) { return T(std::atanh(double(x))); });
      case Op::erf:
        return slow([](T x, const LoopAux&) { return T(std::erf(double(x))); });
      case Op::erfc:
        return slow([](T x, const LoopAux&) { return T(std::erfc(double(x))); });
      case Op::erf_inv:
        return slow([](T x, const LoopAux&) { return T(DoubleLane<B>::erf_inv(x)); });
      case Op::digamma:
        return slow([](T x, const LoopAux&) { return T(DoubleLane<B>::digamma(x)); });
      case Op::lgamma:
        return slow([](T x, const LoopAux&) {
          int sign = 0;  // lgamma itself writes a global
          return T(::lgamma_r(double(x), &sign));
        });
      default:
        return nullptr;
    }
  }

  // --- the tables
  template <class F>
  static LoopFn with_lane(Lane lane, F f) {
    switch (lane) {
      case Lane::f32:
        return f(float{});
      case Lane::f64:
        return f(double{});
      case Lane::s32:
      case Lane::mask:
        return f(int32_t{});
      case Lane::u32:
        return f(uint32_t{});
      case Lane::s64:
        return f(int64_t{});
      case Lane::u64:
        return f(uint64_t{});
    }
    return nullptr;
  }

  static LoopFn find(const LoopFnKey& k) {
    if (k.op == Op::round_to) return k.a_uniform ? nullptr : k.lane == Lane::f32 ? round_f32 : round_f64;
    if (k.op == Op::convert) return k.a_uniform ? nullptr : convert(k.lane, k.to);
    return with_lane(k.lane, [&](auto zero) -> LoopFn { return find_of<decltype(zero)>(k); });
  }
  template <class T>
  static LoopFn find_of(const LoopFnKey& k) {
    if (k.op == Op::iota) return iota<T>;
    if (k.op == Op::select) return map_select<T>(k);
    if (LoopFn f = k.lane == Lane::mask ? compare_masks(k) : compare<T>(k)) return f;
    if constexpr (std::is_floating_point_v<T>) {
      if (LoopFn f = floating<T>(k)) return f;
      if constexpr (sizeof(T) == 4) return math_f32(k);
      return math_f64(k);
    } else if (k.lane == Lane::mask) {
      return masks(k);
    } else {
      return integer<T>(k);
    }
  }
  // Of programs with 64-bit lanes: null where no lane has so many bits.
  static LoopFn find_wide(const LoopFnKey& k) {
    if (k.op == Op::round_to) return nullptr;
    if (k.op == Op::convert) return k.a_uniform ? nullptr : convert_wide(k.lane, k.to);
    return with_wide(k.lane, [&](auto zero) -> LoopFn { return find_of<decltype(zero)>(k); });
  }
  template <class F>
  static LoopFn with_wide(Lane lane, F f) {
    if (lane == Lane::f64) return f(double{});
    if (lane == Lane::s64) return f(int64_t{});
    return lane == Lane::u64 ? f(uint64_t{}) : nullptr;
  }

  // Truth is 0 or -1: the order is reversed.
  static LoopFn compare_masks(const LoopFnKey& k) { return compare<uint32_t>(k); }
  static LoopFn masks(LoopFnKey k) {
    if (k.op == Op::max) k.op = Op::bit_or;
    if (k.op == Op::min) k.op = Op::bit_and;
    return bitwise<int32_t>(k);
  }

  template <class T>
  static void iota(void* d, const void*, const void*, const void*, int64_t n, const LoopAux& aux) {
    auto* to = static_cast<T*>(d);
    for (int64_t i = 0; i < n; ++i) to[i] = T(aux.start + i);
  }

  // --- conversions
  template <class D, class A>
  static void to_int(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    using U = std::make_unsigned_t<D>;
    constexpr bool kSigned = std::is_signed_v<D>;
    const U most = U(~U(0)) >> (sizeof(D) * 8 - aux.bits + kSigned);
    const D low_value = kSigned ? D(-D(most) - 1) : D(0);
    const A past = A(uint64_t{1} << (aux.bits - kSigned - 1)) * 2, low = kSigned ? -past : A(0);
    auto* to = static_cast<D*>(d);
    auto* from = static_cast<const A*>(a);
    for (int64_t i = 0; i < n; ++i) {
      A x = from[i];
      bool inside = (x > low - 1) & (x < past);
      D r = D(inside ? x : A(0));
      r = x >= past ? D(most) : r;
      to[i] = x <= low ? low_value : r;
    }
  }

  // Named, since clang does not take types of lambdas here.
  template <class D, class A>
  struct Cast {
    D operator()(A x, const LoopAux&) const { return D(x); }
  };
  template <class T>
  struct FromMask {
    T operator()(int32_t x, const LoopAux&) const { return T(x & 1); }
  };
  template <class A>
  struct ToMask {
    int32_t operator()(A x, const LoopAux&) const { return -int32_t(x != A(0)); }
  };

  static LoopFn convert(Lane from, Lane to) {
    if (from == Lane::mask) {
      return with_lane(to, [&](auto zero) -> LoopFn {
        using T = decltype(zero);
        if (to == Lane::mask) return one<T, T, Cast<T, T>>;
        return one<T, int32_t, FromMask<T>>;
      });
    }
    return with_lane(from, [&](auto from_zero) -> LoopFn {
      using A = std::remove_reference_t<decltype(from_zero)>;
      if (to == Lane::mask) return one<int32_t, A, ToMask<A>>;
      return with_lane(to, [&](auto to_zero) -> LoopFn { return cast<decltype(to_zero), A>(); });
    });
  }
  template <class D, class A>
  static LoopFn cast() {
    if constexpr (std::is_floating_point_v<A> && !std::is_floating_point_v<D>) {
      return to_int<D, A>;
    } else {
      return one<D, A, Cast<D, A>>;
    }
  }
  static LoopFn convert_wide(Lane from, Lane to) {
    if (from == Lane::mask || to == Lane::mask) return nullptr;
    if (bytes(to) == 8) {
      return with_wide(to, [&](auto to_zero) -> LoopFn {
        using D = std::remove_reference_t<decltype(to_zero)>;
        return with_lane(from, [&](auto from_zero) -> LoopFn { return cast<D, decltype(from_zero)>(); });
      });
    }
    return with_wide(from, [&](auto from_zero) -> LoopFn {
      using A = std::remove_reference_t<decltype(from_zero)>;
      return with_lane(to, [&](auto to_zero) -> LoopFn { return cast<decltype(to_zero), A>(); });
    });
  }

  // --- memory: narrow formats pass through a small buffer
  static constexpr int64_t kPart = 256;

  static bool has_rows(Dtype dtype) { return is_on_chip(dtype) && trine::bits(dtype) >= 8; }

  static void widen(const void* from, Dtype dtype, float* to, int64_t n) {
    if (has_rows(dtype)) return row_kernels(dtype, B::kSimd).widen(from, to, size_t(n));
    const DtypeRow& r = trine::row(dtype);
    for (int64_t i = 0; i < n; ++i) to[i] = r.widen(static_cast<const uint8_t*>(from)[i]);
  }
  static void round(const float* from, Dtype dtype, void* to, int64_t n) {
    if (has_rows(dtype)) return row_kernels(dtype, B::kSimd).round(from, to, size_t(n), nullptr);
    const DtypeRow& r = trine::row(dtype);
    Rounding nearest;
    for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(to)[i] = uint8_t(r.round(from[i], nearest));
  }

  static void round_f32(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    uint32_t narrow[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      int64_t m = n - i < kPart ? n - i : kPart;
      round(static_cast<const float*>(a) + i, aux.dtype, narrow, m);
      widen(narrow, aux.dtype, static_cast<float*>(d) + i, m);
    }
  }
  static void round_f64(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    float once[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      int64_t m = n - i < kPart ? n - i : kPart;
      bool wide = aux.dtype == Dtype::f32;
      for (int64_t j = 0; j < m; ++j) {
        double x = static_cast<const double*>(a)[i + j];
        once[j] = wide ? float(x) : to_float_odd(x);
      }
      if (!wide) round_f32(once, once, nullptr, nullptr, m, aux);
      for (int64_t j = 0; j < m; ++j) static_cast<double*>(d)[i + j] = double(once[j]);
    }
  }

  // How memory of a dtype becomes lanes: S is stored, T a lane.
  template <class S, class T>
  static void load_int(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    auto* to = static_cast<T*>(d);
    auto* from = static_cast<const S*>(a);
    const uint32_t up = 32 - aux.bits;
    for (int64_t i = 0; i < n; ++i) to[i] = T(T(uint32_t(from[i]) << up) >> up);
  }
  static void load_narrow(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    widen(a, aux.dtype, static_cast<float*>(d), n);
  }
  static void store_narrow(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux& aux) {
    round(static_cast<const float*>(a), aux.dtype, d, n);
  }
  template <int kSize>
  static void copy(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
    if (d != a) std::memmove(d, a, size_t(n) * kSize);
  }
  static void load_truth(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
    auto* to = static_cast<int32_t*>(d);
    auto* from = static_cast<const uint8_t*>(a);
    for (int64_t i = 0; i < n; ++i) to[i] = -int32_t(from[i] != 0);
  }

  static LoopFn load_unit(Dtype dtype) {
    const DtypeRow& r = trine::row(dtype);
    if (r.kind == DtypeKind::boolean) return load_truth;
    if (r.bits == 64) return copy<8>;
    if (r.bits == 32) return copy<4>;
    if (r.kind == DtypeKind::floating) return load_narrow;
    bool is_signed = r.kind == DtypeKind::signed_int;
    if (r.bits == 16) return is_signed ? load_int<int16_t, int32_t> : load_int<uint16_t, uint32_t>;
    return is_signed ? load_int<int8_t, int32_t> : load_int<uint8_t, uint32_t>;
  }

  template <class S>
  static void store_int(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
    for (int64_t i = 0; i < n; ++i) static_cast<S*>(d)[i] = S(static_cast<const uint32_t*>(a)[i]);
  }
  static void store_truth(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
    for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(d)[i] = uint8_t(static_cast<const uint32_t*>(a)[i] & 1);
  }
  static LoopFn store_unit(Dtype dtype) {
    const DtypeRow& r = trine::row(dtype);
    if (r.kind == DtypeKind::boolean) return store_truth;
    if (r.bits == 64) return copy<8>;
    if (r.bits == 32) return copy<4>;
    if (r.kind == DtypeKind::floating) return store_narrow;
    return r.bits == 16 ? store_int<uint16_t> : store_int<uint8_t>;
  }

  using Apart = StridedLoops<Loops>;
  static LoopFn load(Dtype dtype, bool strided) { return strided ? Apart::find_load(dtype) : load_unit(dtype); }
  static LoopFn store(Dtype dtype, bool strided) { return strided ? Apart::find_store(dtype) : store_unit(dtype); }
  static LoopFn pick(Dtype dtype) { return Apart::find_pick(dtype); }

  static LoopFn wrap(Dtype type) {
    const DtypeRow& r = trine::row(type);
    if (!is_integer(type) || r.bits >= 32) return nullptr;
    return r.kind == DtypeKind::signed_int ? load_int<int32_t, int32_t> : load_int<uint32_t, uint32_t>;
  }

  static LoopFn spread(Lane lane) {
    return with_lane(lane, [](auto zero) -> LoopFn {
      using T = decltype(zero);
      return [](void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
        const T x = *static_cast<const T*>(a);
        for (int64_t i = 0; i < n; ++i) static_cast<T*>(d)[i] = x;
      };
    });
  }

  // --- reductions
  static LoopFnKey pair_key(Op op, Lane lane) {
    constexpr Op kPairs[] = {Op::add, Op::mul, Op::max, Op::min, Op::bit_and, Op::bit_or, Op::bit_xor};
    return {.op = kPairs[int(op) - int(Op::reduce_sum)], .lane = lane, .to = lane};
  }
  static LoopFn pair(Op op, Lane lane) { return find(pair_key(op, lane)); }

  // Narrow integers start from their own type's limits.
  template <class T>
  static T start_of(Op op, Lane lane, uint32_t bits) {
    using Limits = std::numeric_limits<T>;
    T least = 0, most = T(-1);
    if constexpr (std::is_floating_point_v<T>) {
      least = -Limits::infinity(), most = Limits::infinity();
    } else if (lane != Lane::mask) {
      using U = std::make_unsigned_t<T>;
      most = T(U(~U(0)) >> (sizeof(T) * 8 - bits + std::is_signed_v<T>));
      least = std::is_signed_v<T> ? T(-most - 1) : T(0);
    }
    switch (op) {
      case Op::reduce_prod:
        return T(1);
      case Op::reduce_max:
        return least;
      case Op::reduce_min:
        return most;
      case Op::reduce_and:
        return std::is_signed_v<T> ? T(-1) : most;
      default:
        return T(0);
    }
  }
  template <class T, Op kOp, Lane kLane>
  static void fill(void* d, const void*, const void*, const void*, int64_t n, const LoopAux& aux) {
    const T x = start_of<T>(kOp, kLane, aux.bits);
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(d)[i] = x;
  }
  template <Op kOp>
  static LoopFn fill_of(Lane lane) {
    if (lane == Lane::mask) return fill<int32_t, kOp, Lane::mask>;
    return with_lane(lane, [](auto zero) -> LoopFn { return fill<decltype(zero), kOp, Lane::s32>; });
  }
  static LoopFn identity(Op op, Lane lane) {
    switch (op) {
      case Op::reduce_sum:
        return fill_of<Op::reduce_sum>(lane);
      case Op::reduce_prod:
        return fill_of<Op::reduce_prod>(lane);
      case Op::reduce_max:
        return fill_of<Op::reduce_max>(lane);
      case Op::reduce_min:
        return fill_of<Op::reduce_min>(lane);
      case Op::reduce_and:
        return fill_of<Op::reduce_and>(lane);
      case Op::reduce_or:
        return fill_of<Op::reduce_or>(lane);
      default:
        return fill_of<Op::reduce_xor>(lane);
    }
  }

  // A whole set of accumulators at a time, as vectors; the rest one by one.
  template <class T, class F>
  static void gather_up(void* d, const void* a, const void*, const void*, int64_t n, const LoopAux&) {
    typedef T Vector __attribute__((vector_size(kVectorBytes)));
    constexpr int kVectors = kAccumulatorBytes / kVectorBytes;
    constexpr int64_t kLanes = kVectorBytes / sizeof(T), kCount = kVectors * kLanes;
    auto* to = static_cast<T*>(d);
    auto* from = static_cast<const T*>(a);
    Vector acc[kVectors];
    std::memcpy(acc, to, sizeof acc);
    int64_t i = 0;
    for (; i + kCount <= n; i += kCount) {
#pragma GCC unroll 8
      for (int k = 0; k < kVectors; ++k) {
        Vector x;
        std::memcpy(&x, from + i + k * kLanes, sizeof x);
        acc[k] = F{}(acc[k], x);
      }
    }
    std::memcpy(to, acc, sizeof acc);
    for (int64_t k = 0; k < n - i; ++k) to[k] = F{}(to[k], from[i + k]);
  }

  // Halves onto halves; the order is part of the result.
  template <class T, class F>
  static void fold_up(void* d, const void* a, const void*, const void*, int64_t, const LoopAux&) {
    constexpr int64_t kCount = kAccumulatorBytes / sizeof(T);
    T acc[kCount];
    std::memcpy(acc, a, sizeof acc);
    for (int64_t half = kCount / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) acc[k] = F{}(acc[k], acc[k + half]);
    }
    *static_cast<T*>(d) = acc[0];
  }

  template <class T, class F>
  static LoopFn either(bool folds, F) {
    return folds ? fold_up<T, F> : gather_up<T, F>;
  }
  // Over single numbers and vectors of them alike; sums of integers wrap, so their type is unsigned.
  template <class T>
  static LoopFn reduction(Op op, bool folds) {
    // Of equal numbers the first: whether -0 or 0 is found first is not worth the time of every maximum.
    auto most = [](auto x, auto y) {
      auto larger = y > x ? y : x;
      return y != y ? y : larger;
    };
    auto least = [](auto x, auto y) {
      auto smaller = y < x ? y : x;
      return y != y ? y : smaller;
    };
    if (op == Op::reduce_max) return either<T>(folds, most);
    if (op == Op::reduce_min) return either<T>(folds, least);
    if constexpr (std::is_floating_point_v<T>) {
      if (op == Op::reduce_sum) return either<T>(folds, [](auto x, auto y) { return x + y; });
      return either<T>(folds, [](auto x, auto y) { return x * y; });
    } else {
      using U = std::make_unsigned_t<T>;
      switch (op) {
        case Op::reduce_sum:
          return either<U>(folds, [](auto x, auto y) { return x + y; });
        case Op::reduce_prod:
          return either<U>(folds, [](auto x, auto y) { return x * y; });
        case Op::reduce_and:
          return either<U>(folds, [](auto x, auto y) { return x & y; });
        case Op::reduce_or:
          return either<U>(folds, [](auto x, auto y) { return x | y; });
        default:
          return either<U>(folds, [](auto x, auto y) { return x ^ y; });
      }
    }
  }
  static LoopFn reduction_of(Op op, Lane lane, bool folds) {
    if (lane == Lane::mask && op == Op::reduce_max) op = Op::reduce_or;
    if (lane == Lane::mask && op == Op::reduce_min) op = Op::reduce_and;
    return with_lane(lane, [&](auto zero) -> LoopFn { return reduction<decltype(zero)>(op, folds); });
  }
  static LoopFn accumulate(Op op, Lane lane) { return reduction_of(op, lane, false); }
  static LoopFn accumulate_wide(Op op, Lane lane) {
    return with_wide(lane, [&](auto zero) -> LoopFn { return reduction<decltype(zero)>(op, false); });
  }
  static LoopFn fold(Op op, Lane lane) { return reduction_of(op, lane, true); }

  static constexpr LoopKernels kTable{find, load, store, pick, wrap, spread, accumulate, fold, identity, pair};
};

}  // namespace trine::host

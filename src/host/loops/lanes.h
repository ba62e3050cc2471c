// What ops do to one lane, as templates over C++ types; the loops around them are in kernels.h.
// Only the two builds of the kernels include this: B is a type of theirs, so that no function is shared between them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "host/loops/math.h"

namespace trine::host {

// An int32 whose sums wrap around, as those of vector registers do.
template <class B>
struct Wrapping {
  int32_t x;
  explicit Wrapping(int32_t x) : x(x) {}
  friend Wrapping operator+(Wrapping a, Wrapping b) { return Wrapping(int32_t(uint32_t(a.x) + uint32_t(b.x))); }
  friend Wrapping operator-(Wrapping a, Wrapping b) { return Wrapping(int32_t(uint32_t(a.x) - uint32_t(b.x))); }
  friend Wrapping operator&(Wrapping a, Wrapping b) { return Wrapping(a.x & b.x); }
  friend Wrapping operator<<(Wrapping a, int n) { return Wrapping(a.x << n); }
  friend Wrapping operator>>(Wrapping a, int n) { return Wrapping(a.x >> n); }
  friend Wrapping operator^(Wrapping a, Wrapping b) { return Wrapping(a.x ^ b.x); }
  friend bool operator==(Wrapping a, Wrapping b) { return a.x == b.x; }
};

// Float lanes for LaneMath: plain numbers.
template <class B>
struct PlainLanes {
  using F = float;
  using I = Wrapping<B>;
  using M = bool;
  static float fma(float a, float b, float c) {
    if constexpr (B::kFma) {
      return __builtin_fmaf(a, b, c);
    } else {
      return a * b + c;
    }
  }
  static I bits(float x) { return I(std::bit_cast<int32_t>(x)); }
  static float value(I i) { return std::bit_cast<float>(i.x); }
  static float select(bool m, float a, float b) { return m ? a : b; }
  static float root(float x) { return __builtin_sqrtf(x); }
  static float magnitude(float x) { return std::bit_cast<float>(std::bit_cast<int32_t>(x) & 0x7fffffff); }
  static float to_float(I i) { return float(i.x); }
  static float least(float x, float limit) { return limit < x ? limit : x; }  // NaN stays
  static float most(float x, float limit) { return limit > x ? limit : x; }
};

template <class B, class T>
struct IntLane {
  using U = std::make_unsigned_t<T>;
  static constexpr uint32_t kWidth = sizeof(T) * 8;
  static U low_bits(T a, uint32_t bits) { return U(U(a) & (U(~U(0)) >> (kWidth - bits))); }

  static T add(T a, T b) { return T(U(a) + U(b)); }
  static T sub(T a, T b) { return T(U(a) - U(b)); }
  static T mul(T a, T b) { return T(U(a) * U(b)); }
  static T neg(T a) { return T(U(0) - U(a)); }
  static T abs(T a) { return a < 0 ? neg(a) : a; }
  // Of 32 bits in double, which holds every quotient: loops over it become vector code, of division they do not.
  static int32_t quotient(int32_t a, int32_t b) { return int32_t(double(a) / double(b)); }
  static T div(T a, T b) {
    if constexpr (std::is_same_v<T, int32_t>) {
      const bool is_apart = (b == 0) | (b == -1);
      const T apart = b == 0 ? T(-1) : neg(a), q = quotient(a, is_apart ? 1 : b);
      return is_apart ? apart : q;
    }
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return neg(a);
    return T(a / b);
  }
  static T rem(T a, T b) {
    if constexpr (std::is_same_v<T, int32_t>) {
      const bool is_apart = (b == 0) | (b == -1);
      const T by = is_apart ? 1 : b, apart = b == 0 ? a : 0, r = sub(a, mul(quotient(a, by), by));
      return is_apart ? apart : r;
    }
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
  static T pow(T a, T b) {
    if (std::is_signed_v<T> && b < 0) return a == 1 ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
    U r = 1, base = U(a);
    for (U e = U(b); e; e >>= 1) {
      if (e & 1) r *= base;
      base *= base;
    }
    return T(r);
  }
  static T shl(T a, T b, uint32_t bits) { return U(b) < bits ? T(U(a) << (U(b) & (kWidth - 1))) : T(0); }
  static T shr_arith(T a, T b, uint32_t bits) {
    using S = std::make_signed_t<T>;
    S own_sign = S(S(U(a) << (kWidth - bits)) >> (kWidth - bits));
    return T(own_sign >> (U(b) < bits ? U(b) : U(bits - 1)));
  }
  static T shr_logical(T a, T b, uint32_t bits) {
    return U(b) < bits ? T(low_bits(a, bits) >> (U(b) & (kWidth - 1))) : T(0);
  }
  static T popcount(T a, uint32_t bits) { return T(__builtin_popcountll(uint64_t(low_bits(a, bits)))); }
  static T clz(T a, uint32_t bits) {
    U low = low_bits(a, bits);
    return low == 0 ? T(bits) : T(__builtin_clzll(uint64_t(low)) - int(64 - bits));
  }
};

// f32 and f64 alike. max and min: NaN if either is, and -0 is below 0.
template <class B, class T>
struct FloatLane {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static T max(T a, T b) {
    T most = b > a ? b : a;
    most = a == b ? std::bit_cast<T>(Bits(std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b))) : most;
    return b != b ? b : most;
  }
  static T min(T a, T b) {
    T least = b < a ? b : a;
    least = a == b ? std::bit_cast<T>(Bits(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b))) : least;
    return b != b ? b : least;
  }
  static T sign(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; }
  static T round_away(T a) {
    T whole = std::trunc(a);
    T add = std::copysign(T(1), a);
    return std::fabs(a - whole) >= T(0.5) ? whole + add : std::copysign(whole, a);
  }

  // By bits, so that every exponent and mantissa width is exact: IEEE's rules, overflow to infinity, no subnormals.
  static T reduce_precision(T a, uint32_t exponent, uint32_t mantissa) {
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr uint32_t kMantissa = sizeof(T) == 4 ? 23 : 52, kExponent = sizeof(T) == 4 ? 8 : 11;
    constexpr U kSign = U(1) << (sizeof(T) * 8 - 1), kInf = ((U(1) << kExponent) - 1) << kMantissa;
    U x = std::bit_cast<U>(a), sign = x & kSign;
    if (a != a) return a;
    if (mantissa < kMantissa) {
      uint32_t drop = kMantissa - mantissa;
      U last = U(1) << drop;
      x = (x + (last >> 1) - 1 + ((x & last) ? 1 : 0)) & ~(last - 1);
    }
    if (exponent < kExponent) {
      U bias = (U(1) << (kExponent - 1)) - 1, reach = (U(1) << (exponent - 1)) - 1;
      U field = x & kInf;
      if (field > (bias + reach) << kMantissa) return std::bit_cast<T>(sign | kInf);
      if (field <= (bias - reach) << kMantissa) return std::bit_cast<T>(sign);
    }
    return std::bit_cast<T>(x);
  }
};

// f64 beyond the C library.
template <class B>
struct DoubleLane {
  static double digamma(double x) {
    constexpr double kPi = 3.14159265358979323846;
    if (x <= 0 && std::floor(x) == x) return std::numeric_limits<double>::quiet_NaN();
    double shift = 0;
    if (x < 0.5) {  // reflection
      shift = -kPi / std::tan(kPi * x);
      x = 1 - x;
    }
    for (; x < 10; x += 1) shift -= 1 / x;
    double s = 1 / (x * x), tail = 0;
    for (double c : {691.0 / 32760, 1.0 / 132, 1.0 / 240, 1.0 / 252, 1.0 / 120, 1.0 / 12}) tail = s * (c - tail);
    return shift + std::log(x) - 0.5 / x - tail;
  }
  // Giles' approximation, made exact by steps of Newton's method.
  static double erf_inv(double x) {
    using Math = LaneMath<PlainLanes<B>>;
    if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x * double(Math::kInf) : double(Math::kNan);
    double w = -std::log1p(-x * x);
    bool near = w < 5;
    w = near ? w - 2.5 : std::sqrt(w) - 3;
    double y = 0;
    for (float c : near ? Math::kErfInvNear : Math::kErfInvFar) y = y * w + double(c);
    y *= x;
    for (int i = 0; i < 3 && x != 0; ++i) {
      double past = x > 0.5 ? (1 - x) - std::erfc(y) : x < -0.5 ? std::erfc(-y) - (1 + x) : std::erf(y) - x;
      y -= past / (1.12837916709551257390 * std::exp(-y * y));
    }
    return y;
  }
};

}  // namespace trine::host

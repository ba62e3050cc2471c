// Rounding and widening of one value, generic over a FloatFormat or an integer type; the definition every fast path
// equals. Not a table: which dtype has which format is in base/number/number.h. Invariant: rounding acts as if the
// exponent were unbounded, and overflow is decided on the rounded value.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace trine {

// What a finite value too large for the format, or an infinity, becomes.
enum class Overflow : uint8_t { infinity, nan, saturate };

struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  bool has_sign = true;
  bool has_inf = false;
  bool has_nan = false;
  Overflow overflow = Overflow::infinity;
  uint32_t max_bits = 0;           // the largest finite magnitude
  uint32_t nan_bits = 0;           // the NaN that rounding writes, without its sign
  int low_zeros = 0;               // storage bits below the mantissa, always zero (tf32)
  bool nan_is_minus_zero = false;  // the fnuz formats: one zero, and the code of the other is the NaN

  constexpr int sign_at() const { return exponent_bits + mantissa_bits; }
  constexpr bool operator==(const FloatFormat&) const = default;
};

// value = significand * 2^-shift in units of the target's last place; returns the rounded integer.
// Stochastic: rounds up when the random word is below the dropped fraction, kept to 32 bits.
template <bool kStochastic>
constexpr uint32_t round_shift(uint32_t significand, int shift, uint32_t random) {
  if (shift == 0) return significand;
  if (shift > 60) return 0;
  uint64_t whole = uint64_t{significand} >> shift;
  uint64_t dropped = significand & ((uint64_t{1} << shift) - 1);
  if constexpr (kStochastic) {
    return uint32_t(whole) + (random < uint32_t((dropped << 32) >> shift));
  } else {
    uint64_t half = uint64_t{1} << (shift - 1);
    return uint32_t(whole) + (dropped > half || (dropped == half && (whole & 1)));
  }
}

// Signed formats with subnormals: everything but f8e8m0.
template <FloatFormat F, bool kStochastic>
constexpr uint32_t round_signed(uint32_t x, uint32_t random) {
  uint32_t sign = (x >> 31) << F.sign_at();
  uint32_t magnitude = x & 0x7fffffff;
  if constexpr (F.nan_is_minus_zero) {
    constexpr FloatFormat kPlain{F.exponent_bits, F.mantissa_bits, F.bias,           true, false, false,
                                 F.overflow,      F.max_bits,      1u << F.sign_at()};
    if (magnitude >= 0x7f800000) return 1u << F.sign_at();
    uint32_t rounded = round_signed<kPlain, kStochastic>(magnitude, random);
    return rounded == 0 || rounded == 1u << F.sign_at() ? rounded : sign | rounded;
  }
  if (magnitude > 0x7f800000) {
    // Without a NaN there is only a zero to write; ml_dtypes flips its sign, and so do we.
    return F.has_nan ? sign | F.nan_bits : sign ^ (1u << F.sign_at());
  }
  if constexpr (F.exponent_bits == 8 && !kStochastic) {
    // f32's exponent: one add rounds, and an overflow carries into infinity by itself.
    constexpr int kShift = 23 - F.mantissa_bits;
    return (x + ((1u << (kShift - 1)) - 1) + ((x >> kShift) & 1)) >> kShift;
  }
  uint32_t beyond = F.overflow == Overflow::nan ? F.nan_bits : F.max_bits + (F.overflow == Overflow::infinity);
  if (magnitude == 0x7f800000) return sign | beyond;
  int exponent = magnitude >> 23;
  uint32_t significand = exponent ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
  int field = (exponent ? exponent : 1) - 127 + F.bias;  // the target's exponent field, below 1 when subnormal
  int shift = 23 - F.mantissa_bits + (field < 1 ? 1 - field : 0);
  uint32_t base = field < 1 ? 0 : uint32_t(field - 1) << F.mantissa_bits;  // the leading one adds 1 to the field
  uint32_t rounded = base + round_shift<kStochastic>(significand, shift, random);
  return sign | (rounded > F.max_bits ? beyond : rounded);
}

// f8e8m0: powers of two from 2^-127; zero, negatives and overflow are NaN; ties go up; below 2^-127 goes up to it.
template <bool kStochastic>
constexpr uint32_t round_e8m0(uint32_t x, uint32_t random) {
  if (x == 0 || x >= 0x7f800000) return 0xff;
  uint32_t exponent = x >> 23;
  if (exponent == 0) {  // f32 is subnormal: 2^-127 is 0x400000
    if (x <= 0x400000) return 0;
    return kStochastic ? random < (x - 0x400000) << 10 : 1;  // all that is above 2^-127 goes up, as in ml_dtypes
  }
  uint32_t fraction = x << 9;  // of the way to the next power of two, in 32 bits
  return exponent + (kStochastic ? random < fraction : fraction >= 0x80000000u);
}

// To storage bits, low_zeros included.
template <FloatFormat F, bool kStochastic = false>
constexpr uint32_t round_float(float value, uint32_t random = 0) {
  uint32_t x = std::bit_cast<uint32_t>(value);
  if constexpr (F.mantissa_bits == 23) {
    return x;
  } else if constexpr (!F.has_sign) {
    return round_e8m0<kStochastic>(x, random);
  } else {
    return round_signed<F, kStochastic>(x, random) << F.low_zeros;
  }
}

template <FloatFormat F>
constexpr uint32_t widen_bits(uint32_t stored) {
  if constexpr (F.mantissa_bits == 23) return stored;
  if constexpr (!F.has_sign) return stored == 0xff ? 0x7fc00000 : stored == 0 ? 0x400000 : stored << 23;
  if (F.nan_is_minus_zero && stored == 1u << F.sign_at()) return 0x7fc00000;
  uint32_t x = stored >> F.low_zeros;
  uint32_t sign = (x >> F.sign_at()) << 31;
  uint32_t magnitude = x & ((1u << F.sign_at()) - 1);
  int up = 23 - F.mantissa_bits;
  if (F.exponent_bits == 8) return sign | magnitude << up;  // the same exponent: NaN payloads stay as they are
  if (F.has_inf && magnitude == F.max_bits + 1) return sign | 0x7f800000;
  if (F.has_nan && magnitude > F.max_bits) {
    // f16 keeps its payload and turns quiet, as processors do; 8-bit NaNs become the one quiet NaN.
    return sign | 0x7fc00000 | (F.exponent_bits == 5 && F.mantissa_bits == 10 ? (magnitude & 0x3ff) << up : 0);
  }
  uint32_t mantissa = magnitude & ((1u << F.mantissa_bits) - 1);
  int field = magnitude >> F.mantissa_bits;
  if (field == 0) {
    if (mantissa == 0) return sign;
    int lift = F.mantissa_bits + 1 - std::bit_width(mantissa);  // every subnormal here is normal in f32
    mantissa = (mantissa << lift) & ((1u << F.mantissa_bits) - 1);
    field = 1 - lift;
  }
  return sign | uint32_t(field - F.bias + 127) << 23 | mantissa << up;
}

template <FloatFormat F>
constexpr float widen_float(uint32_t stored) {
  return std::bit_cast<float>(widen_bits<F>(stored));
}

// To a whole number, ties to even: adding 2^23 leaves no bits below one. Past it, floats are whole already.
constexpr float round_even(float value) {
  float big = value < 0 ? -0x1p23f : 0x1p23f;
  return value > -0x1p23f && value < 0x1p23f ? (value + big) - big : value;
}

// Nearest even, saturating, NaN to 0: casts to integers as the engines do them (NaN is an estimate).
// kBits below the width of T gives the sub-byte types, sign-extended in T.
template <class T, int kBits = int(sizeof(T) * 8)>
constexpr T round_int(float value) {
  constexpr int kValueBits = kBits - std::is_signed_v<T>;
  constexpr float kTop = float(uint64_t{1} << (kValueBits - 1)) * 2;  // one past the largest
  constexpr T kMax = T(((uint64_t{1} << (kValueBits - 1)) - 1) * 2 + 1);
  constexpr T kMin = std::is_signed_v<T> ? T(-kMax - 1) : T(0);
  if (value != value) return 0;
  float whole = round_even(value);
  if (whole >= kTop) return kMax;
  if (whole <= float(kMin)) return kMin;
  return T(whole);
}

}  // namespace trine

// Elementary functions in f64 for activation.cpp: no branches and no calls, so that loops over them become vector code
// with the same bits on every host, for inputs that are f32 values; NaN stays NaN.
// Good to 1e-14 relative, or 1e-9 where asked for brief sums: then 0.01 of an f32 step, which is enough unless the
// result is a small difference.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace trine::arch::flat {

inline constexpr double kPi = 3.14159265358979323846, kPiLow = 1.2246467991473532e-16;

[[gnu::always_inline]] inline double at_least(double low, double x) { return x < low ? low : x; }
[[gnu::always_inline]] inline double at_most(double high, double x) { return x > high ? high : x; }
[[gnu::always_inline]] inline double absolute(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~(uint64_t{1} << 63));
}
[[gnu::always_inline]] inline double with_sign_of(double magnitude, double sign) {
  const uint64_t top = uint64_t{1} << 63;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) | (std::bit_cast<uint64_t>(sign) & top));
}

enum class Sum { full, brief };

// Σ c[kFrom + i]·x^i for kCount terms, given x, x², x⁴, x⁸ and x¹⁶: halves are summed apart and then joined, which
// waits less than Horner's rule.
template <size_t kFrom, size_t kCount, size_t N>
[[gnu::always_inline]] inline double sum_of(const double (&c)[N], double x, double x2, double x4, double x8,
                                            double x16) {
  if constexpr (kCount == 1) {
    return c[kFrom];
  } else {
    constexpr size_t kHalf = std::bit_floor(kCount - 1);
    const double power = kHalf == 1 ? x : kHalf == 2 ? x2 : kHalf == 4 ? x4 : kHalf == 8 ? x8 : x16;
    return sum_of<kFrom, kHalf>(c, x, x2, x4, x8, x16) +
           sum_of<kFrom + kHalf, kCount - kHalf>(c, x, x2, x4, x8, x16) * power;
  }
}

// The first kTerms coefficients, from the constant term up.
template <size_t kTerms, size_t N>
[[gnu::always_inline]] inline double polynomial_of(const double (&c)[N], double x) {
  static_assert(kTerms <= 32);
  const double x2 = x * x, x4 = x2 * x2, x8 = x4 * x4, x16 = x8 * x8;
  return sum_of<0, kTerms>(c, x, x2, x4, x8, x16);
}
template <size_t N>
[[gnu::always_inline]] inline double polynomial(const double (&c)[N], double x) {
  return polynomial_of<N>(c, x);
}

// 2^k·e^r with |r| ≤ ln2/2; clamped where f32 has long been 0 or infinite.
template <Sum kSum = Sum::brief>
[[gnu::always_inline]] inline double exp(double x) {
  constexpr double kLog2e = 1.4426950408889634074, kLn2High = 6.93147180369123816490e-01,
                   kLn2Low = 1.90821492927058770002e-10, kShift = 6755399441055744.0;  // 1.5·2^52: rounds to integer
  constexpr double kSeries[] = {
      1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  x = at_most(700, at_least(-700, x));
  const double shifted = x * kLog2e + kShift, k = shifted - kShift;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  const uint64_t power = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return polynomial_of<kSum == Sum::full ? 14 : 10>(kSeries, r) * std::bit_cast<double>(power);
}

// x > 0 and finite. m·2^k with m in [√½, √2), then the series of artanh.
[[gnu::always_inline]] inline double log(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kSeries[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kMantissa = (uint64_t{1} << 52) - 1;
  constexpr uint64_t kTwo52 = 0x4330000000000000;  // the bits of 2^52, to turn a small integer into a double
  const uint64_t bits = std::bit_cast<uint64_t>(x) - kSqrtHalf;
  const uint64_t biased = (bits + (uint64_t{1024} << 52)) >> 52;
  const double k = std::bit_cast<double>(biased | kTwo52) - (0x1p52 + 1024);
  const double m = std::bit_cast<double>((bits & kMantissa) + kSqrtHalf);
  const double s = (m - 1) / (m + 1);
  return k * kLn2High + (s * polynomial(kSeries, s * s) + k * kLn2Low) + 0 * x;  // the last term keeps NaN
}

// log(1 + u) for u in [0, 1]: the rounding of 1 + u is divided out again.
[[gnu::always_inline]] inline double log1p(double u) {
  const double w = 1 + u, low = w - 1;
  const double ratio = u / (low == 0 ? 1 : low);
  return low == 0 ? u : log(w) * ratio;
}

template <Sum kSum = Sum::brief>
[[gnu::always_inline]] inline double sigmoid(double x) {
  return 1 / (1 + exp<kSum>(-x));
}

[[gnu::always_inline]] inline double tanh(double x) {
  constexpr double kSeries[] = {1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835};
  const double a = absolute(x), e = exp(-2 * a), far = (1 - e) / (1 + e), near = a * polynomial(kSeries, a * a);
  return with_sign_of(a < 0.02 ? near : far, x);
}

// erfc of z ≥ 0; beyond 10.7 (below 1e-51) it stays at that value. e^(−z²)·t·P(x) with t = 2/(2+z) and x = t mapped to
// [−1, 1]; P is our own Chebyshev fit over z in [0, 10.7], to 4e-15 relative in full and 3e-10 in brief.
template <Sum kSum = Sum::brief>
[[gnu::always_inline]] inline double erfc_positive(double z) {
  constexpr double kMax = 10.7, kLow = 2 / (2 + kMax), kSpan = 1 / (1 - kLow);
  constexpr double kFull[] = {0.56842821261759768,    0.32754663271723627,    0.10408552452012919,
                              0.0064413966671894203,  -0.0063933179777024727, -0.00069351815604673202,
                              0.00063643316241811395, 4.6345141526631361e-06, -7.327964747673381e-05,
                              1.439216162651708e-05,  5.9747707242673499e-06, -3.6298270677382303e-06,
                              2.7975550400150947e-07, 4.4102045958206536e-07, -2.0263945223710976e-07,
                              1.0042295561990233e-08, 2.7645754838086614e-08, -1.3958028411158775e-08,
                              1.4830712388107147e-09, 1.8870340452519203e-09, -7.5942016598679779e-10};
  constexpr double kBrief[] = {0.56842821260565191,    0.32754663145864527,    0.10408552571496235,
                               0.0064414321262059879,  -0.0063933376147845512, -0.00069380416234206331,
                               0.0006365553963341902,  5.6262877503377057e-06, -7.3648021316590661e-05,
                               1.271160674932644e-05,  6.5624635840159194e-06, -2.2503411864981265e-06,
                               -2.1760287918619333e-07};
  z = at_most(kMax, z);
  const double t = 2 / (2 + z), x = (2 * t - (1 + kLow)) * kSpan;
  const double fit = kSum == Sum::full ? polynomial(kFull, x) : polynomial(kBrief, x);
  return exp<kSum>(-z * z) * t * fit;
}

// The distribution function of the normal law, relative accuracy in the left tail too.
template <Sum kSum = Sum::brief>
[[gnu::always_inline]] inline double normal_below(double x) {
  const double half = 0.5 * erfc_positive<kSum>(absolute(x) * 0.70710678118654752440);
  return x < 0 ? half : 1 - half;
}

[[gnu::always_inline]] inline double normal_density(double x) {
  return 0.39894228040143267794 * exp<Sum::full>(-0.5 * x * x);
}

[[gnu::always_inline]] inline double erf(double x) {
  constexpr double kScale = 1.12837916709551257390;  // 2/√π
  constexpr double kSeries[] = {1.0,          -1.0 / 3,       1.0 / 10,       -1.0 / 42,
                                1.0 / 216,    -1.0 / 1320,    1.0 / 9360,     -1.0 / 75600,
                                1.0 / 685440, -1.0 / 6894720, 1.0 / 76204800, -1.0 / 918086400};
  const double a = absolute(x), near = kScale * a * polynomial(kSeries, a * a), far = 1 - erfc_positive(a);
  return with_sign_of(a < 0.5 ? near : far, x);
}

// sin of x in [−π, π]: folded onto [0, π/2].
[[gnu::always_inline]] inline double sin_pi(double x) {
  constexpr double kSeries[] = {1.0,
                                -1.0 / 6,
                                1.0 / 120,
                                -1.0 / 5040,
                                1.0 / 362880,
                                -1.0 / 39916800,
                                1.0 / 6227020800,
                                -1.0 / 1307674368000,
                                1.0 / 355687428096000,
                                -1.0 / 121645100408832000};
  const double a = absolute(x), folded = a > kPi / 2 ? (kPi - a) + kPiLow : a;
  const double s = folded * polynomial(kSeries, folded * folded);
  return with_sign_of(1, x) * s;
}

}  // namespace trine::arch::flat

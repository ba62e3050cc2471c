// Elementary functions in f64 for activation.cpp: no branches and no calls, so that loops over them become vector code
// with the same bits on every host. Good to about 1e-14 relative for inputs that are f32 values; NaN stays NaN.
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

// Coefficients from the constant term up.
template <size_t N>
[[gnu::always_inline]] inline double polynomial(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// 2^k·e^r with |r| ≤ ln2/2; clamped where f32 has long been 0 or infinite.
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
  return polynomial(kSeries, r) * std::bit_cast<double>(power);
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

[[gnu::always_inline]] inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

[[gnu::always_inline]] inline double tanh(double x) {
  constexpr double kSeries[] = {1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835};
  const double a = absolute(x), e = exp(-2 * a), far = (1 - e) / (1 + e), near = a * polynomial(kSeries, a * a);
  return with_sign_of(a < 0.02 ? near : far, x);
}

// erfc of z ≥ 0; beyond 10.7 (below 1e-51) it stays at that value. e^(−z²)·t·C(t) with t = 2/(2+z) and C our own
// Chebyshev fit to 4e-15 relative over z in [0, 10.7].
[[gnu::always_inline]] inline double erfc_positive(double z) {
  constexpr double kMax = 10.7, kLow = 2 / (2 + kMax);
  constexpr double kFit[] = {0.61825382518123773,     0.33195239603124388,     0.049114865867135489,
                             0.0013988361448433744,   -0.00069443808674180571, -4.132241902902677e-05,
                             1.5842758519807849e-05,  4.139352360583576e-07,   -4.5421464244682745e-07,
                             2.5481126900221063e-08,  1.1542294817299491e-08,  -2.1975988149395767e-09,
                             -1.0625140585263346e-10, 9.4874682931169797e-11,  -1.1157438460727012e-11,
                             -1.7768340348391517e-12, 7.7213931096318383e-13,  -7.6211802615541893e-14,
                             -1.7654644707666582e-14, 7.1984636125637829e-15,  -1.4484790153251606e-15};
  z = at_most(kMax, z);
  const double t = 2 / (2 + z), x = (2 * t - (1 + kLow)) / (1 - kLow);
  double above = 0, here = 0;  // Clenshaw's sum
#pragma GCC unroll 20
  for (size_t i = std::size(kFit) - 1; i > 0; --i) {
    const double next = 2 * x * here - above + kFit[i];
    above = here;
    here = next;
  }
  return exp(-z * z) * t * (x * here - above + kFit[0]);
}

// The distribution function of the normal law, relative accuracy in the left tail too.
[[gnu::always_inline]] inline double normal_below(double x) {
  const double half = 0.5 * erfc_positive(absolute(x) * 0.70710678118654752440);
  return x < 0 ? half : 1 - half;
}

[[gnu::always_inline]] inline double normal_density(double x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }

[[gnu::always_inline]] inline double erf(double x) {
  constexpr double kScale = 1.12837916709551257390;  // 2/√π
  constexpr double kSeries[] = {1.0,          -1.0 / 3,       1.0 / 10,       -1.0 / 42,
                                1.0 / 216,    -1.0 / 1320,    1.0 / 9360,     -1.0 / 75600,
                                1.0 / 685440, -1.0 / 6894720, 1.0 / 76204800, -1.0 / 918086400};
  const double a = absolute(x), near = kScale * a * polynomial(kSeries, a * a), far = 1 - erfc_positive(a);
  return with_sign_of(a < 0.5 ? near : far, x);
}

// sin of x in [−π, π]: folded onto [0, π/2].
[[gnu::always_inline]] inline double sin_half_turn(double x) {
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

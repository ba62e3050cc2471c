// Series, asymptotic expansions and Newton steps; each says where it is used and why it converges there.
#include "ops/functions/special.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace trine::ops {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// B(2k) for k = 1, 2, ...: the Bernoulli numbers of the Euler-Maclaurin tails.
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                 5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};

double digamma(double x) {
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    const double fraction = x - std::nearbyint(x);  // tan is taken near zero, where it is exact
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double shifted = 0;
  for (; x < 10; ++x) shifted -= 1 / x;
  // log x - 1/2x - sum B(2k) / (2k x^2k): below 1e-17 after eight terms from 10 on.
  double tail = 0, power = 1;
  for (int k = 1; k <= 8; ++k) {
    power /= x * x;
    tail += kBernoulli[k - 1] * power / (2 * k);
  }
  return shifted + std::log(x) - 0.5 / x - tail;
}

double zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q) || s < 1) return kNan;
  if (s == 1) return kInfinity;
  if (q <= 0) {
    if (q == std::floor(q)) return std::fmod(s, 2) == 0 ? kInfinity : kNan;
    if (s != std::floor(s)) return kNan;
  }
  if (q > 1e8) return (1 / (s - 1) + 1 / (2 * q)) * std::pow(q, 1 - s);
  constexpr int kTermsMax = 100'000;  // a q far below zero stops early: its terms no longer count
  double sum = 0, at = q;
  for (int k = 0; (k < 10 || at <= 10) && k < kTermsMax; ++k, ++at) sum += std::pow(at, -s);
  // Euler-Maclaurin from `at` on.
  const double end = std::pow(at, -s);
  sum += end * at / (s - 1) + end / 2;
  double factor = s, power = end / at, factorial = 2;
  for (int k = 1; k <= 12; ++k) {
    const double term = kBernoulli[k - 1] / factorial * factor * power;
    sum += term;
    if (std::abs(term) < std::abs(sum) * 1e-17) break;
    factor *= (s + 2 * k - 1) * (s + 2 * k);
    factorial *= (2 * k + 1) * (2 * k + 2);
    power /= at * at;
  }
  return sum;
}

double polygamma(double n, double x) {
  if (n < 0 || n != std::floor(n)) return kNan;
  if (n == 0) return digamma(x);
  const double value = std::tgamma(n + 1) * zeta(n + 1, x);
  return std::fmod(n, 2) == 0 ? -value : value;
}

double erf_inv(double y) {
  const double size = std::abs(y);
  if (!(size <= 1)) return kNan;
  if (size == 1) return std::copysign(kInfinity, y);
  if (size == 0) return y;
  // A start good to three digits, then steps of third order on erfc, which is exact where erf is near one.
  const double log = std::log1p(-size * size), middle = 2 / (std::numbers::pi * 0.147) + log / 2;
  double x = std::sqrt(std::sqrt(middle * middle - log / 0.147) - middle);
  for (int step = 0; step < 4; ++step) {
    const double error = size < 0.5 ? std::erf(x) - size : (1 - size) - std::erfc(x);
    const double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  return std::copysign(x, y);
}

double bessel_i1e(double x) {
  const double size = std::abs(x);
  if (size > 30) {  // asymptotic in 1/x: its smallest term is below e^-60
    double sum = 1, term = 1;
    for (int k = 1; k <= 30; ++k) {
      term *= -(4.0 - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * size);
      sum += term;
    }
    return std::copysign(std::isinf(size) ? 0 : sum / std::sqrt(2 * std::numbers::pi) / std::sqrt(size), x);
  }
  double term = size / 2, sum = term;  // the power series: all terms are positive
  for (int k = 1; term > sum * 1e-18; ++k) {
    term *= size * size / 4 / (double(k) * (k + 1));
    sum += term;
  }
  return std::copysign(sum * std::exp(-size), x);
}

}  // namespace trine::ops

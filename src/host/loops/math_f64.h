// Elementary functions in f64, without branches: loops over them become vector code. DoubleMath are those of f32, which
// more than 40 right bits make the nearest f32 but for ties (0.501 ulp), as small as f32 goes. WideMath are f64's own.
// Products and sums are rounded one by one: every build gives the same bits.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace trine::host {

// B is a type of the file that includes this, so that no function is shared between builds. Arguments are f32 numbers.
template <class B>
struct DoubleMath {
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  static constexpr double kPi = 3.14159265358979323846;
  static constexpr double kFar = 200;  // its exponential is past f32, either way

  static uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
  static double value(uint64_t x) { return std::bit_cast<double>(x); }
  static double magnitude(double x) { return value(bits(x) & (UINT64_MAX >> 1)); }
  static double with_sign_of(double from, double y) { return value((bits(from) & ~(UINT64_MAX >> 1)) ^ bits(y)); }

  // Highest power first. Written out, since compilers make vectors of loops that have no loop inside.
  template <class... C>
  static double poly(double x, double highest, C... rest) {
    double r = highest;
    ((r = r * x + double(rest)), ...);
    return r;
  }

  // The same lowest power first, neighbours in pairs and those again: each step waits for one of a few, not for all
  // before it, which is what one number's time goes by.
  template <size_t N>
  static double paired(double x, const std::array<double, N>& c) {
    if constexpr (N == 1) {
      return c[0];
    } else {
      return [&]<size_t... K>(std::index_sequence<K...>) {
        return paired(
            x * x, std::array<double, (N + 1) / 2>{(2 * K + 1 < N ? c[2 * K] + c[(2 * K + 1) % N] * x : c[2 * K])...});
      }(std::make_index_sequence<(N + 1) / 2>());
    }
  }

  // x = n ln 2 + r: adding 1.5 * 2^52 rounds, and leaves n in the low bits. Limits are ordered so that NaN stays.
  static double exp(double x) {
    constexpr double kMagic = 0x1.8p52;
    double in = kFar < x ? kFar : x;
    in = -kFar > in ? -kFar : in;
    double t = in * 1.44269504088896340736 + kMagic;
    double n = t - kMagic;
    double r = (in - n * 0x1.62e42fefp-1) - n * 0x1.473de6af278edp-34;
    double p = paired(r, std::array{1.0, 1.0, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                    1.0 / 362880, 1.0 / 3628800});
    return value(bits(p) + (bits(t) << 52));
  }

  // x = 2^e m, m in [sqrt(1/2), sqrt 2), and log m = 2 atanh((m - 1) / (m + 1)).
  static double log(double x) {
    constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
    uint64_t u = bits(x) + (kOne - kRootHalf);
    double e = value((u >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
    double f = value((u & 0xfffffffffffff) + kRootHalf) - 1;
    double s = f / (2 + f), z = s * s;
    double p = paired(
        z, std::array{2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19});
    double y = e * 0.69314718055994530942 + s * p;
    y = x == kInf ? x : y;
    y = x == 0 ? -kInf : y;
    return x >= 0 ? y : kNan;
  }

  // Below kNear the differences of the formulas lose bits, and four terms of the series are enough.
  static constexpr double kNear = 0x1p-5;

  static double sinh(double x) {
    double a = magnitude(x), z = a * a, e = exp(a);
    double y = a < kNear ? a * poly(z, 1.0 / 5040, 1.0 / 120, 1.0 / 6, 1.0) : 0.5 * (e - 1 / e);
    return with_sign_of(x, y);
  }
  static double cosh(double x) {
    double e = exp(magnitude(x));
    return 0.5 * (e + 1 / e);
  }
  static double asinh(double x) {
    double a = magnitude(x), z = a * a;
    double y = log(a + __builtin_sqrt(z + 1));
    return with_sign_of(x, a < kNear ? a * poly(z, -15.0 / 336, 3.0 / 40, -1.0 / 6, 1.0) : y);
  }
  static double acosh(double x) {
    double y = log(x + __builtin_sqrt((x - 1) * (x + 1)));
    return x >= 1 ? y : kNan;
  }
  static double atanh(double x) {
    double a = magnitude(x), z = a * a;
    double y = 0.5 * log((1 + a) / (1 - a));
    return with_sign_of(x, a < kNear ? a * poly(z, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0) : y);
  }
  static double cbrt(double x) {
    double a = magnitude(x), y = exp(log(a) * (1.0 / 3));
    y = a == 0 ? 0 : y;
    return with_sign_of(x, a == kInf ? a : y);
  }

  // By bits: the compiler may make branches of what is chosen otherwise, and then no vector code.
  static double choose(bool which, double a, double b) {
    uint64_t mask = uint64_t(0) - uint64_t(which);
    return value((bits(a) & mask) | (bits(b) & ~mask));
  }

  // atan(low / high), 0 <= low <= high: of less than tan(pi / 8), fitted to the least relative error.
  static double eighth(double low, double high) {
    bool is_past = low > high * 0.41421356237309504880;
    double u = choose(is_past, low - high, low) / choose(is_past, low + high, high), z = u * u;
    double r = u * poly(z, 0.0306605533625310662, -0.0587438391569797526, 0.0756367179360588897, -0.0907838777792073122,
                        0.111103847260942092, -0.142856904109692632, 0.199999996046397045, -0.333333333308015787,
                        0.999999999999973209);
    return r + choose(is_past, kPi / 4, 0);
  }
  static double atan(double x) {
    double a = magnitude(x);
    bool is_steep = a > 1;
    double r = eighth(choose(is_steep, 1, a), choose(is_steep, a, 1));
    return with_sign_of(x, choose(is_steep, kPi / 2 - r, r));
  }
  static double atan2(double y, double x) {
    double ax = magnitude(x), ay = magnitude(y);
    bool is_steep = ay > ax;
    double low = is_steep ? ax : ay, high = is_steep ? ay : ax;
    bool are_infinite = low == kInf;
    double r = eighth(are_infinite ? 1 : low, are_infinite | (high == 0) ? 1 : high);
    r = is_steep ? kPi / 2 - r : r;
    r = with_sign_of(x, 1) < 0 ? kPi - r : r;
    r = (x != x) | (y != y) ? kNan : r;
    return with_sign_of(y, r);
  }
  static double asin(double x) { return atan2(x, __builtin_sqrt((1 - x) * (1 + x))); }
  static double acos(double x) { return atan2(__builtin_sqrt((1 - x) * (1 + x)), x); }

  // As C's pow, of which these are the rules for what is not a positive number.
  static double pow(double a, double b) {
    double size = magnitude(a), half = b * 0.5;
    double y = exp(choose(size == 1, 0, b * log(size)));
    bool is_whole = __builtin_trunc(b) == b, is_odd = is_whole & (__builtin_trunc(half) != half);
    y = choose((a < 0) & (size != kInf) & !is_whole, kNan, y);
    y = choose((b == 0) | (a == 1), 1, choose(b != b, kNan, y));
    return choose(is_odd, with_sign_of(a, y), y);
  }
};

// Of f64: exp to 0.7 ulp, tanh to 1.4; logistic is what its formula makes of exp.
template <class B>
struct WideMath {
  using Double = DoubleMath<B>;
  static constexpr double kMagic = 0x1.8p52;  // added, it rounds, and leaves a whole number in the low bits

  // e^x = 2^n (1 + high + low), |high| < 0.35.
  struct Parts {
    double n, high, low;
  };
  static Parts parts_of(double x) {
    double n = (x * 1.44269504088896340736 + kMagic) - kMagic;
    double near = x - n * 0x1.62e42feep-1, rest = n * 0x1.a39ef35793c76p-33;  // the first product is exact
    double r = near - rest, lost = (near - r) - rest;
    double p = 0.5 + r * Double::paired(r, std::array{1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                                      1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
                                                      1.0 / 6227020800});
    return {n, r, lost + r * r * p};
  }
  // 2^n, n whole and within 1022.
  static double power_of_two(double n) { return Double::value((Double::bits(n + kMagic) << 52) + 0x3ff0000000000000); }
  // Limits past which nothing changes, ordered so that NaN stays.
  static double within(double x, double low, double high) {
    double y = high < x ? high : x;
    return low > y ? low : y;
  }

  // 1 + high + low, rounded once.
  static double sum(const Parts& e) {
    double one = 1 + e.high;
    return one + ((e.high - (one - 1)) + e.low);
  }
  static double exp(double x) {
    Parts e = parts_of(within(x, -746, 710));
    double half = (e.n * 0.5 + kMagic) - kMagic;  // in two steps, since 2^n may be past f64 where the result is not
    return sum(e) * power_of_two(half) * power_of_two(e.n - half);
  }
  static double logistic(double x) { return 1 / (1 + exp(-x)); }
  // Near 0 a fraction of polynomials (Cephes), else 1 - 2 / (e^2x + 1).
  static double tanh(double x) {
    double a = within(Double::magnitude(x), 0, 22), z = a * a;
    bool is_near = a < 0.625;
    Parts e = parts_of(2 * a);
    double p = Double::poly(z, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3);
    double q = Double::poly(z, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
    double past = Double::choose(is_near, a * z * p, -2) / Double::choose(is_near, q, sum(e) * power_of_two(e.n) + 1);
    return Double::with_sign_of(x, Double::choose(is_near, a, 1) + past);
  }
};

}  // namespace trine::host

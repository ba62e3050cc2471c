// Elementary functions of f32, written once without branches over an algebra L of lanes: floats in a loop that the
// compiler makes vector code of, or values that the emitter of machine code records. Error: at most 4 ulp, see
// tests/host/loop_ops.cpp. Results below the least normal number may be 0, as XLA's are.
// Invariant: every L that has a fused multiply-add gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace trine::host {

// L::F, L::I, L::M: float, int32 and truth lanes with + - * / and compares, & | ^ << >> on I, & | ! on M, and
// fma, bits, value, select, root, magnitude, to_float, least, most as statics.
template <class L>
struct LaneMath {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;

  static constexpr float kInf = std::numeric_limits<float>::infinity();
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // their sum is ln 2 to 40 bits

  static F fma(F a, F b, F c) { return L::fma(a, b, c); }
  static F select(M m, F a, F b) { return L::select(m, a, b); }

  // Highest power first. Written out, since compilers make vectors of loops that have no loop inside.
  template <class... C>
  static F poly(F x, float highest, C... rest) {
    F r = F(highest);
    ((r = fma(r, x, F(rest))), ...);
    return r;
  }

  // x = n ln 2 + r. Adding 1.5 * 2^23 rounds, and leaves n in the low bits; x must be within +-2^21.
  struct Reduced {
    F n, r;
    I low;  // n in its low bits
  };
  static Reduced reduce_ln2(F x) {
    constexpr float kMagic = 0x1.8p23f;
    F t = fma(x, F(kLog2e), F(kMagic));
    F n = t - F(kMagic);
    F r = fma(n, F(-kLn2Low), fma(n, F(-kLn2High), x));
    return {n, r, L::bits(t)};
  }

  static constexpr float kExpMost = 0x1.62e42ep6f;  // the last whose exponential is finite
  static constexpr float kExpLeast = -87.3365479f;  // the last whose exponential is a normal number

  // 2^n times the exponential of r, which must be a normal number.
  static F scaled_exp(const Reduced& d) {
    F p = fma(poly(d.r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                   5.0000001201e-1f),
              d.r * d.r, d.r) +
          F(1.0f);
    return L::value(L::bits(p) + (d.low << 23));
  }

  static F exp(F x) {
    F in = L::most(L::least(x, F(kExpMost)), F(kExpLeast));
    F y = scaled_exp(reduce_ln2(in));
    // The sum is infinity, or NaN where x is: adding to the exponent may have made a number of it.
    y = select(x <= F(kExpMost), y, x + F(kInf));
    return select(x < F(kExpLeast), F(0.0f), y);
  }

  // 2 (2^(n-1) p + (2^(n-1) - 1/2)): the halves keep n = 128 finite.
  static F expm1(F x) {
    F in = L::most(L::least(x, F(88.73f)), F(-18.0f));
    Reduced d = reduce_ln2(in);
    F p = fma(poly(d.r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                   5.0000001201e-1f),
              d.r * d.r, d.r);
    F half = L::value((d.low << 23) + I(126 << 23));
    F y = fma(half, p, half - F(0.5f));
    return select(L::magnitude(x) < F(1e-7f), x, y + y);
  }

  // x = 2^e m, m in [sqrt(1/2), sqrt 2).
  static F log(F x) {
    constexpr int32_t kRootHalf = 0x3f3504f3;
    M tiny = x < F(std::numeric_limits<float>::min());
    I u = L::bits(select(tiny, x * F(0x1p23f), x)) - I(kRootHalf);
    F e = L::to_float(u >> 23) - select(tiny, F(23.0f), F(0.0f));
    F f = L::value((u & I(0x7fffff)) + I(kRootHalf)) - F(1.0f);
    F f2 = f * f;
    F y = fma(poly(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                   -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f),
              f2 * f, e * F(kLn2Low));
    y = fma(F(-0.5f), f2, y) + f;
    y = fma(e, F(kLn2High), y);
    y = select(x == F(kInf), x, y);
    y = select(x == F(0.0f), F(-kInf), y);
    return select(x >= F(0.0f), y, F(kNan));
  }

  // log(1+x) with the rounding error of the sum given back.
  static F log1p(F x) {
    F u = F(1.0f) + x;
    F lost = (x - (u - F(1.0f))) / u;
    F y = log(u);
    return select((u == F(0.0f)) | (u == F(kInf)), y, select(u == F(1.0f), x, y + lost));
  }

  static F logistic(F x) { return F(1.0f) / (F(1.0f) + exp(F(0.0f) - x)); }

  // x P(x^2) / Q(x^2), fitted to the least relative error; 1 from the limits on, and never more.
  static F tanh(F x) {
    F in = L::most(L::least(x, F(9.011f)), F(-9.011f));
    F x2 = in * in;
    F p = poly(x2, -1.9182881e-11f, 4.80443418e-08f, 4.39763317e-05f, 0.00607251283f, 0.214726284f, 1.5696007f);
    F q = poly(x2, 2.02175647e-06f, 0.000618345861f, 0.0427679531f, 0.737926483f, 1.5696007f);
    return L::most(L::least(in * (p / q), F(1.0f)), F(-1.0f));
  }

  // Likewise; at the limits both with and without a fused multiply-add 1.
  static F erf(F x) {
    F in = L::most(L::least(x, F(3.91999841f)), F(-3.91999841f));
    F x2 = in * in;
    F p = poly(x2, 1.35311313e-06f, 0.000188020989f, 0.00248514139f, 0.0348150767f, 0.125668749f, 0.744770169f);
    F q = poly(x2, 2.51410911e-05f, 0.000767232908f, 0.00987961516f, 0.0753133595f, 0.331382424f, 0.660035372f);
    return in * (p / q);
  }

  // t P(t) exp(-x^2), t = 1 / (1 + |x| / 2), P fitted to the least relative error; exp gets back what x^2 rounds off.
  static F erfc(F x) {
    F a = L::least(L::magnitude(x), F(10.5f));
    F t = F(1.0f) / fma(a, F(0.5f), F(1.0f));
    F p = t * poly(t, -0.0588471703f, 0.283487946f, -0.484937519f, 0.27546367f, -0.0248200297f, 0.201916888f,
                   0.243300155f, 0.282348037f, 0.282087982f);
    F square = F(0.0f) - a * a;  // of -110.25 to 0, or NaN, which comes back with `lost`
    F e = select(square < F(kExpLeast), F(0.0f), scaled_exp(reduce_ln2(square)));
    F lost = fma(a, a, square);
    F y = fma(F(0.0f) - lost, e, e) * p;
    return select(x < F(0.0f), F(2.0f) - y, y);
  }

  // Giles, "Approximating the erfinv function": two ranges of w = -log(1 - x^2).
  static constexpr std::array<float, 9> kErfInvNear = {2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                                                       -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                                                       -0.00417768164f,  0.246640727f,    1.50140941f};
  static constexpr std::array<float, 9> kErfInvFar = {-0.000200214257f, 0.000100950558f, 0.00134934322f,
                                                      -0.00367342844f,  0.00573950773f,  -0.0076224613f,
                                                      0.00943887047f,   1.00167406f,     2.83297682f};
  static F erf_inv(F x) {
    F w = F(0.0f) - log((F(1.0f) - x) * (F(1.0f) + x));
    M is_near = w < F(5.0f);
    F t = select(is_near, w - F(2.5f), L::root(w) - F(3.0f));
    F r = F(0.0f);
    [&]<size_t... K>(std::index_sequence<K...>) {
      ((r = fma(r, t, select(is_near, F(kErfInvNear[K]), F(kErfInvFar[K])))), ...);
    }(std::make_index_sequence<9>{});
    return select(L::magnitude(x) == F(1.0f), x * F(kInf), r * x);
  }

  // x = k pi/2 + r for |x| up to kTrigMax; beyond, callers take the slow way.
  static constexpr float kTrigMax = 8192.0f;
  struct Quarter {
    F r, low;  // their sum; the second is what the first rounds off
    I k;
  };
  static Quarter reduce_quarter(F x) {
    constexpr float kMagic = 0x1.8p23f, kThird = 7.549790126e-8f, kFourth = -1.7151245e-15f;
    F t = fma(x, F(0.636619772f), F(kMagic));
    F n = t - F(kMagic);
    F near = fma(n, F(-1.5703125f), x);  // the first two products are exact without a fused add too
    near = fma(n, F(-4.837512969970703125e-4f), near);
    F r = fma(n, F(-kThird), near);
    return {r, fma(n, F(-kFourth), fma(n, F(-kThird), near - r)), L::bits(t)};
  }
  static F sin_poly(const Quarter& q, F r2) {
    F p = poly(r2, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f) * r2;
    return q.r + fma(p, q.r, q.low);
  }
  static F cos_poly(const Quarter& q, F r2) {
    F p = poly(r2, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f) * r2;
    F most = fma(F(-0.5f), r2, F(1.0f));
    F lost = fma(F(-0.5f), r2, F(1.0f) - most);
    return most + fma(p, r2, fma(F(0.0f) - q.r, q.low, lost));
  }
  // The sine of r + k pi/2.
  static F sin_quarter(const Quarter& q, I k) {
    F r2 = q.r * q.r;
    F y = select((k & I(1)) == I(0), sin_poly(q, r2), cos_poly(q, r2));
    return L::value(L::bits(y) ^ ((k & I(2)) << 30));
  }
  static F sin(F x) {
    Quarter q = reduce_quarter(x);
    return select(x == F(0.0f), x, sin_quarter(q, q.k));
  }
  static F cos(F x) {
    Quarter q = reduce_quarter(x);
    return sin_quarter(q, q.k + I(1));
  }
  static F tan(F x) {
    Quarter q = reduce_quarter(x);
    F r2 = q.r * q.r;
    F s = sin_poly(q, r2), c = cos_poly(q, r2);
    M even = (q.k & I(1)) == I(0);
    F y = select(even, s, F(0.0f) - c) / select(even, c, s);
    return select(x == F(0.0f), x, y);
  }
};

}  // namespace trine::host

// One step of a transform for every radix, written over vectors of lanes. Included by the files that compile it for one
// instruction set each; everything is in an unnamed namespace. Element (k, j, b) of the input, k < after, j < radix,
// b < before, lies at k + after * (j + radix * b), of the output at k + after * (b + before * j).
#include "ops/fourier/fourier.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions alone

namespace trine::ops {
namespace {

template <class T>
struct Lane {
  typedef T Vector __attribute__((vector_size(32)));
  typedef T Memory __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
};

template <class T>
struct Pair {
  typename Lane<T>::Vector re, im;

  Pair operator+(const Pair& o) const { return {re + o.re, im + o.im}; }
  Pair operator-(const Pair& o) const { return {re - o.re, im - o.im}; }
  Pair operator*(T s) const { return {re * s, im * s}; }
  Pair times_minus_i() const { return {im, -re}; }  // by -i
  Pair times(T r, T i) const { return {re * r - im * i, re * i + im * r}; }
};

template <class T>
Pair<T> load(const Planes<T>& from, size_t at) {
  using Memory = typename Lane<T>::Memory;
  return {*reinterpret_cast<const Memory*>(from.re + at), *reinterpret_cast<const Memory*>(from.im + at)};
}

template <class T>
void store(const Planes<T>& to, size_t at, const Pair<T>& x) {
  using Memory = typename Lane<T>::Memory;
  *reinterpret_cast<Memory*>(to.re + at) = x.re;
  *reinterpret_cast<Memory*>(to.im + at) = x.im;
}

template <size_t kRadix, class T>
void butterfly(Pair<T>* x) {
  if constexpr (kRadix == 2) {
    const Pair<T> a = x[0], b = x[1];
    x[0] = a + b;
    x[1] = a - b;
  } else if constexpr (kRadix == 3) {
    const Pair<T> sum = x[1] + x[2], half = x[0] - sum * T(0.5);
    const Pair<T> times_minus_i = ((x[1] - x[2]) * T(0.86602540378443864676)).times_minus_i();
    x[0] = x[0] + sum;
    x[1] = half + times_minus_i;
    x[2] = half - times_minus_i;
  } else if constexpr (kRadix == 4) {
    const Pair<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = (x[1] - x[3]).times_minus_i();
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  } else {
    constexpr T kCos1 = T(0.30901699437494742410), kSin1 = T(0.95105651629515357212);
    constexpr T kCos2 = T(-0.80901699437494742410), kSin2 = T(0.58778525229247312917);
    const Pair<T> s1 = x[1] + x[4], d1 = x[1] - x[4], s2 = x[2] + x[3], d2 = x[2] - x[3];
    const Pair<T> a1 = x[0] + s1 * kCos1 + s2 * kCos2, a2 = x[0] + s1 * kCos2 + s2 * kCos1;
    const Pair<T> b1 = (d1 * kSin1 + d2 * kSin2).times_minus_i(), b2 = (d1 * kSin2 - d2 * kSin1).times_minus_i();
    x[0] = x[0] + s1 + s2;
    x[1] = a1 + b1;
    x[2] = a2 + b2;
    x[3] = a2 - b2;
    x[4] = a1 - b1;
  }
}

// Any odd radix: pairs of inputs that are mirrored share their products.
template <class T>
void butterfly_odd(const FourierStep<T>& step, Pair<T>* x) {
  const size_t radix = step.radix, half = radix / 2;
  Pair<T> sums[Fourier<T>::kRadixMax / 2 + 1], differences[Fourier<T>::kRadixMax / 2 + 1];
  const Pair<T> first = x[0];
  for (size_t j = 1; j <= half; ++j) {
    sums[j] = x[j] + x[radix - j];
    differences[j] = x[j] - x[radix - j];
    x[0] = x[0] + sums[j];
  }
  for (size_t m = 1; m <= half; ++m) {
    Pair<T> a = first, b = {};
    for (size_t j = 1; j <= half; ++j) {
      const size_t at = j * m % radix;
      a = a + sums[j] * step.root_re[at];
      b = b + differences[j] * -step.root_im[at];
    }
    x[m] = a + b.times_minus_i();
    x[radix - m] = a - b.times_minus_i();
  }
}

// kRadix 0: the step's own, odd.
template <size_t kRadix, class T>
void run_step(const FourierStep<T>& step, Planes<T> from, Planes<T> to) {
  constexpr size_t kLanes = Fourier<T>::kLanes;
  const size_t radix = kRadix ? kRadix : step.radix, after = step.after, before = step.before;
  const T *w_re = step.re.data(), *w_im = step.im.data();
  Pair<T> x[kRadix ? kRadix : Fourier<T>::kRadixMax];
  for (size_t b = 0; b < before; ++b)
    for (size_t k = 0; k < after; ++k) {
      for (size_t j = 0; j < radix; ++j) x[j] = load(from, (k + after * (j + radix * b)) * kLanes);
      if constexpr (kRadix == 0)
        butterfly_odd(step, x);
      else
        butterfly<kRadix>(x);
      for (size_t j = 1; k > 0 && j < radix; ++j)
        x[j] = x[j].times(w_re[(j - 1) * after + k], w_im[(j - 1) * after + k]);
      for (size_t j = 0; j < radix; ++j) store(to, (k + after * (b + before * j)) * kLanes, x[j]);
    }
}

template <class T>
void run_any(const FourierStep<T>& step, Planes<T> from, Planes<T> to) {
  switch (step.radix) {
    case 2:
      return run_step<2>(step, from, to);
    case 3:
      return run_step<3>(step, from, to);
    case 4:
      return run_step<4>(step, from, to);
    case 5:
      return run_step<5>(step, from, to);
    default:
      return run_step<0>(step, from, to);
  }
}

}  // namespace
}  // namespace trine::ops

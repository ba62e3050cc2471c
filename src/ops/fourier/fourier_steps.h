// The kernels of a transform, written over vectors of lanes. Included by the files that compile it for one
// instruction set each; everything is in an unnamed namespace. Of a step, element (k, j, b) of the input, k < after, j
// < radix, b < before, lies at k + after * (j + radix * b), of the output at k + after * (b + before * j).
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

// --- planes to and from complex numbers in memory

template <class T>
using Vector = typename Lane<T>::Vector;
template <class T>
Vector<T> read(const T* from) {
  return *reinterpret_cast<const typename Lane<T>::Memory*>(from);
}
template <class T>
void write(T* to, const Vector<T>& x) {
  *reinterpret_cast<typename Lane<T>::Memory*>(to) = x;
}

// Rows of vectors become columns.
inline void transpose(Vector<float>* x) {
  Vector<float> y[8];
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  Vector<float> z[8];
  for (int h = 0; h < 8; h += 4)
    for (int i = 0; i < 2; ++i) {
      z[h + 2 * i] = __builtin_shufflevector(y[h + i], y[h + 2 + i], 0, 1, 8, 9, 4, 5, 12, 13);
      z[h + 2 * i + 1] = __builtin_shufflevector(y[h + i], y[h + 2 + i], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    x[i] = __builtin_shufflevector(z[i], z[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = __builtin_shufflevector(z[i], z[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
inline void transpose(Vector<double>* x) {
  Vector<double> y[4];
  for (int i = 0; i < 4; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 2, 6);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 4, 5);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 6, 7);
  }
}

// Real and imaginary parts of neighbours apart, and together again.
inline Pair<float> apart(const Vector<float>& a, const Vector<float>& b) {
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
}
inline Pair<double> apart(const Vector<double>& a, const Vector<double>& b) {
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
}
inline void together(const Pair<float>& x, Vector<float>& a, Vector<float>& b) {
  a = __builtin_shufflevector(x.re, x.im, 0, 8, 1, 9, 2, 10, 3, 11);
  b = __builtin_shufflevector(x.re, x.im, 4, 12, 5, 13, 6, 14, 7, 15);
}
inline void together(const Pair<double>& x, Vector<double>& a, Vector<double>& b) {
  a = __builtin_shufflevector(x.re, x.im, 0, 4, 1, 5);
  b = __builtin_shufflevector(x.re, x.im, 2, 6, 3, 7);
}

template <class T>
const T* parts(const std::complex<T>* x) {
  return reinterpret_cast<const T*>(x);
}
template <class T>
T* parts(std::complex<T>* x) {
  return reinterpret_cast<T*>(x);
}

template <class T>
void read_rows(const std::complex<T>* from, size_t step, size_t n, Planes<T> to) {
  constexpr size_t kLanes = kFourierLanes<T>, kEach = kLanes / 2;  // numbers of a vector
  size_t k = 0;
  for (; k + kEach <= n; k += kEach) {
    Vector<T> x[kLanes];
    for (size_t l = 0; l < kLanes; ++l) x[l] = read(parts(from + l * step + k));
    transpose(x);
    for (size_t i = 0; i < kEach; ++i) {
      write(to.re + (k + i) * kLanes, x[2 * i]);
      write(to.im + (k + i) * kLanes, x[2 * i + 1]);
    }
  }
  for (; k < n; ++k)
    for (size_t l = 0; l < kLanes; ++l) {
      to.re[k * kLanes + l] = from[l * step + k].real();
      to.im[k * kLanes + l] = from[l * step + k].imag();
    }
}

template <class T>
void write_rows(Planes<T> from, std::complex<T>* to, size_t step, size_t n, T scale) {
  constexpr size_t kLanes = kFourierLanes<T>, kEach = kLanes / 2;
  size_t k = 0;
  for (; k + kEach <= n; k += kEach) {
    Vector<T> x[kLanes];
    for (size_t i = 0; i < kEach; ++i) {
      const Pair<T> y = load(from, (k + i) * kLanes) * scale;
      x[2 * i] = y.re;
      x[2 * i + 1] = y.im;
    }
    transpose(x);
    for (size_t l = 0; l < kLanes; ++l) write(parts(to + l * step + k), x[l]);
  }
  for (; k < n; ++k)
    for (size_t l = 0; l < kLanes; ++l)
      to[l * step + k] = {from.re[k * kLanes + l] * scale, from.im[k * kLanes + l] * scale};
}

template <class T>
void read_columns(const std::complex<T>* from, size_t step, size_t n, Planes<T> to) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k < n; ++k) {
    const T* x = parts(from + k * step);
    store(to, k * kLanes, apart(read(x), read(x + kLanes)));
  }
}

template <class T>
void write_columns(Planes<T> from, std::complex<T>* to, size_t step, size_t n, T scale) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k < n; ++k) {
    Vector<T> a, b;
    together(load(from, k * kLanes) * scale, a, b);
    write(parts(to + k * step), a);
    write(parts(to + k * step) + kLanes, b);
  }
}

template <class T>
Pair<T> load(const Planes<const T>& from, size_t at) {
  return {read(from.re + at), read(from.im + at)};
}

template <class T>
void twiddle(Planes<const T> from, Planes<const T> by, size_t n, Planes<T> to, size_t step, size_t count) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k < n; k += kLanes) {
    Vector<T> re[kLanes], im[kLanes];
    for (size_t i = 0; i < kLanes; ++i) {
      const Pair<T> x = load(from, (k + i) * kLanes), w = load(by, (k + i) * kLanes);
      re[i] = x.re * w.re - x.im * w.im;
      im[i] = x.re * w.im + x.im * w.re;
    }
    transpose(re);
    transpose(im);
    for (size_t l = 0; l < count; ++l) store(to, (k / kLanes * step + l) * kLanes, {re[l], im[l]});
  }
}

template <class T>
void times(Planes<const T> from, const std::complex<T>* by, size_t n, Planes<T> to) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k < n; ++k) store(to, k * kLanes, load(from, k * kLanes).times(by[k].real(), by[k].imag()));
}

template <class T>
void half_of_real(Planes<const T> from, const std::complex<T>* by, size_t n, Planes<T> to) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k <= n; ++k) {
    const Pair<T> a = load(from, (k < n ? k : 0) * kLanes), b = load(from, (k ? n - k : 0) * kLanes);
    const T r = by[k].real(), i = by[k].imag();
    const Pair<T> even{(a.re + b.re) * T(0.5), (a.im - b.im) * T(0.5)};
    const Pair<T> odd{(a.im + b.im) * T(0.5), (b.re - a.re) * T(0.5)};
    store(to, k * kLanes, {even.re + odd.re * r - odd.im * i, even.im + odd.re * i + odd.im * r});
  }
}

// What is imaginary of the ends is not looked at.
template <class T>
void real_of_half(Planes<const T> from, const std::complex<T>* by, size_t n, Planes<T> to) {
  constexpr size_t kLanes = kFourierLanes<T>;
  for (size_t k = 0; k < n; ++k) {
    Pair<T> a = load(from, k * kLanes), b = load(from, (n - k) * kLanes);
    if (k == 0) a.im = b.im = Vector<T>{};
    const T r = by[k].real(), i = by[k].imag();
    const Pair<T> d{a.re - b.re, a.im + b.im};
    store(to, k * kLanes, {a.re + b.re - (d.re * i + d.im * r), a.im - b.im + (d.re * r - d.im * i)});
  }
}

template <class T>
constexpr FourierKernels<T> kKernels{run_any<T>, read_rows<T>, write_rows<T>,   read_columns<T>, write_columns<T>,
                                     twiddle<T>, times<T>,     half_of_real<T>, real_of_half<T>};

}  // namespace
}  // namespace trine::ops

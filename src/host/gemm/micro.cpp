// Portable microkernels and the choice between them and the vector ones.
#include "host/gemm/micro.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/number/number.h"

namespace trine::host {

namespace {

// A panel's step is kWidth columns of kPerStep stored values; step() adds a row's products to its sums.

template <Dtype D>
struct Floats {
  using Sum = float;
  using A = float;
  using Stored = std::conditional_t<D == Dtype::f32, float, typename Number<D>::Storage>;
  static constexpr int kWidth = 16, kPerStep = 1;
  static float widen(Stored b) {
    if constexpr (D == Dtype::f32) {
      return b;
    } else {
      return Number<D>::widen(b);
    }
  }
  static void step(float* sum, float a, const Stored* b) {
    for (int j = 0; j < kWidth; ++j) sum[j] += a * widen(b[j]);
  }
};

// Sums wrap, as the type's arithmetic does.
struct Pairs {
  using Sum = uint32_t;
  using Stored = int16_t;
  struct A {
    int16_t low, high;
  };
  static constexpr int kWidth = 16, kPerStep = 2;
  static void step(uint32_t* sum, A a, const int16_t* b) {
    for (int j = 0; j < kWidth; ++j) sum[j] += uint32_t(int32_t(a.low) * b[2 * j] + int32_t(a.high) * b[2 * j + 1]);
  }
};

template <class T>
struct Same {
  using Sum = T;
  using A = T;
  using Stored = T;
  static constexpr int kWidth = kStepBytes / sizeof(T), kPerStep = 1;
  static void step(T* sum, T a, const T* b) {
    for (int j = 0; j < kWidth; ++j) sum[j] += a * b[j];
  }
};

// Not std::complex, whose product looks for NaN in every step.
template <class T>
struct Complex {
  struct A {
    T re = 0, im = 0;
    A operator+(A other) const { return {re + other.re, im + other.im}; }
  };
  using Sum = A;
  using Stored = A;
  static constexpr int kWidth = kStepBytes / sizeof(A), kPerStep = 1;
  static void step(A* sum, A a, const A* b) {
    for (int j = 0; j < kWidth; ++j) {
      sum[j].re += a.re * b[j].re - a.im * b[j].im;
      sum[j].im += a.re * b[j].im + a.im * b[j].re;
    }
  }
};

template <class T, int R>
void kernel(const void* a_, const void* b_, int64_t depth, void* c_, int64_t ld, bool add, Ahead) {
  auto* a = static_cast<const typename T::A*>(a_);
  auto* b = static_cast<const typename T::Stored*>(b_);
  auto* c = static_cast<typename T::Sum*>(c_);
  typename T::Sum sum[R][T::kWidth] = {};
  for (int64_t d = 0; d < depth; ++d, a += R, b += T::kWidth * T::kPerStep) {
    for (int r = 0; r < R; ++r) T::step(sum[r], a[r], b);
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < T::kWidth; ++j) c[r * ld + j] = add ? c[r * ld + j] + sum[r][j] : sum[r][j];
  }
}

template <class T>
constexpr MicroKernels kernels() {
  return {{nullptr, kernel<T, 1>, kernel<T, 2>, kernel<T, 3>, kernel<T, 4>, kernel<T, 5>, kernel<T, 6>}};
}

constexpr MicroKernels kPortable[] = {kernels<Floats<Dtype::f32>>(), kernels<Pairs>(),
                                      kernels<Same<double>>(),       kernels<Same<uint32_t>>(),
                                      kernels<Same<uint64_t>>(),     kernels<Complex<float>>(),
                                      kernels<Complex<double>>(),    kernels<Floats<Dtype::bf16>>(),
                                      kernels<Floats<Dtype::f16>>()};

}  // namespace

const MicroKernels& micro_kernels(PanelFormat format, Simd simd) {
#if defined(__x86_64__)
  const MicroKernels* fast = simd == Simd::avx2 && has_avx512() ? micro_kernels_avx512(format) : nullptr;
  if (!fast && simd == Simd::avx2) fast = micro_kernels_avx2(format);
  if (fast) return *fast;
#else
  (void)simd;
#endif
  return kPortable[size_t(format)];
}

}  // namespace trine::host

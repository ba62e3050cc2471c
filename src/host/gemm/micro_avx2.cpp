// Microkernels in AVX2 with FMA and F16C: 12 sums of 8 in registers. Called only where simd_best() says avx2.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/gemm/micro.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

namespace trine::host {
namespace {

struct F32 {
  using Unit = float;
  using Vector = __m256;
  static constexpr int64_t kBytes = 64;  // of a step of B
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const char* b, int half) { return _mm256_loadu_ps(reinterpret_cast<const float*>(b) + 8 * half); }
  static Vector splat(const float* a) { return _mm256_broadcast_ss(a); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
  static Vector sum(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector load_c(const float* c) { return _mm256_loadu_ps(c); }
  static void store_c(float* c, Vector v) { _mm256_storeu_ps(c, v); }
};

struct F64 {
  using Unit = double;
  using Vector = __m256d;
  static constexpr int64_t kBytes = 64;
  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector load(const char* b, int half) { return _mm256_loadu_pd(reinterpret_cast<const double*>(b) + 4 * half); }
  static Vector splat(const double* a) { return _mm256_broadcast_sd(a); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_fmadd_pd(a, b, sum); }
  static Vector sum(Vector a, Vector b) { return _mm256_add_pd(a, b); }
  static Vector load_c(const double* c) { return _mm256_loadu_pd(c); }
  static void store_c(double* c, Vector v) { _mm256_storeu_pd(c, v); }
};

struct Bf16 : F32 {
  static constexpr int64_t kBytes = 32;
  static Vector load(const char* b, int half) {
    __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b) + half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
};

struct F16 : F32 {
  static constexpr int64_t kBytes = 32;
  static Vector load(const char* b, int half) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b) + half));
  }
};

struct Pairs {
  using Unit = int32_t;
  using Vector = __m256i;
  static constexpr int64_t kBytes = 64;
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const char* b, int half) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b) + half); }
  static Vector splat(const int32_t* a) { return _mm256_set1_epi32(*a); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
  static Vector sum(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  static Vector load_c(const int32_t* c) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c)); }
  static void store_c(int32_t* c, Vector v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), v); }
};

struct Int32 : Pairs {
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b)); }
};

// Real and imaginary parts side by side; `whole` adds the parts' products up.
struct C64 : F32 {
  static Vector whole(Vector by_real, Vector by_imaginary) {
    return _mm256_addsub_ps(by_real, _mm256_permute_ps(by_imaginary, 0xb1));
  }
};
struct C128 : F64 {
  static Vector whole(Vector by_real, Vector by_imaginary) {
    return _mm256_addsub_pd(by_real, _mm256_permute_pd(by_imaginary, 5));
  }
};

// Rows [first, first + N) of R.
template <class T, int R, int N>
void complex_rows(const typename T::Unit* a, const char* b, int64_t depth, typename T::Unit* c, int64_t ld, bool add) {
  constexpr int64_t kUnits = int64_t(sizeof(typename T::Vector) / sizeof(typename T::Unit));
  typename T::Vector acc[N][2][2];
#pragma GCC unroll 3
  for (int r = 0; r < N; ++r) acc[r][0][0] = acc[r][0][1] = acc[r][1][0] = acc[r][1][1] = T::zero();
  for (int64_t d = 0; d < depth; ++d) {
    auto low = T::load(b, 0), high = T::load(b, 1);
#pragma GCC unroll 3
    for (int r = 0; r < N; ++r) {
#pragma GCC unroll 2
      for (int part = 0; part < 2; ++part) {
        auto x = T::splat(a + 2 * r + part);
        acc[r][part][0] = T::fma(x, low, acc[r][part][0]);
        acc[r][part][1] = T::fma(x, high, acc[r][part][1]);
      }
    }
    a += 2 * R;
    b += T::kBytes;
  }
#pragma GCC unroll 3
  for (int r = 0; r < N; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      auto* to = c + r * ld * 2 + h * kUnits;
      auto sum = T::whole(acc[r][0][h], acc[r][1][h]);
      T::store_c(to, add ? T::sum(T::load_c(to), sum) : sum);
    }
  }
}

// Three rows at a time: each takes four registers.
template <class T, int R>
void complex_kernel(const void* a_, const void* b_, int64_t depth, void* c_, int64_t ld, bool add, Ahead) {
  auto* a = static_cast<const typename T::Unit*>(a_);
  auto* b = static_cast<const char*>(b_);
  auto* c = static_cast<typename T::Unit*>(c_);
  complex_rows<T, R, (R < 3 ? R : 3)>(a, b, depth, c, ld, add);
  if constexpr (R > 3) complex_rows<T, R, R - 3>(a + 6, b, depth, c + 6 * ld, ld, add);
}

template <class T, int R>
void kernel(const void* a_, const void* b_, int64_t depth, void* c_, int64_t ld, bool add, Ahead ahead) {
  auto* a = static_cast<const typename T::Unit*>(a_);
  auto* b = static_cast<const char*>(b_);
  auto* next = static_cast<const char*>(ahead.from);
  auto* c = static_cast<typename T::Unit*>(c_);
  // Unrolled by hand everywhere: an index that is not a constant would put the sums into memory.
  typename T::Vector acc[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    acc[r][0] = acc[r][1] = T::zero();
    _mm_prefetch(reinterpret_cast<const char*>(c + r * ld), _MM_HINT_T0);
  }
#pragma GCC unroll 4
  for (int64_t d = 0; d < depth; ++d) {
    _mm_prefetch(next, _MM_HINT_T1);
    next += ahead.stride;
    auto low = T::load(b, 0), high = T::load(b, 1);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      auto x = T::splat(a + r);
      acc[r][0] = T::fma(x, low, acc[r][0]);
      acc[r][1] = T::fma(x, high, acc[r][1]);
    }
    a += R;
    b += T::kBytes;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      auto* to = c + r * ld + h * int64_t(sizeof(acc[0][0]) / sizeof(*c));
      T::store_c(to, add ? T::sum(T::load_c(to), acc[r][h]) : acc[r][h]);
    }
  }
}

// One row by panels side by side: two sums of each, none of which waits for another.
template <class T, int kPanels = int(kPanelsWide)>
void wide_row(Rows rows, const void* b_, int64_t b_stride, int64_t depth, void* c_, int64_t, bool add, Ahead) {
  auto* a = static_cast<const typename T::Unit*>(rows.data);
  auto* b = static_cast<const char*>(b_);
  auto* c = static_cast<typename T::Unit*>(c_);
  constexpr int64_t kUnits = int64_t(sizeof(typename T::Vector) / sizeof(typename T::Unit));
  typename T::Vector acc[kPanels][2];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) acc[p][0] = acc[p][1] = T::zero();
  for (int64_t d = 0; d < depth; ++d) {
    const auto x = T::splat(a);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      acc[p][0] = T::fma(x, T::load(b + p * b_stride, 0), acc[p][0]);
      acc[p][1] = T::fma(x, T::load(b + p * b_stride, 1), acc[p][1]);
    }
    a += rows.step;
    b += T::kBytes;
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      auto* to = c + (2 * p + h) * kUnits;
      T::store_c(to, add ? T::sum(T::load_c(to), acc[p][h]) : acc[p][h]);
    }
  }
}

template <class T>
constexpr MicroKernels kernels() {
  return {{nullptr, kernel<T, 1>, kernel<T, 2>, kernel<T, 3>, kernel<T, 4>, kernel<T, 5>, kernel<T, 6>},
          {nullptr, wide_row<T>},
          {nullptr, nullptr, wide_row<T, 2>, wide_row<T, 3>}};
}

template <class T>
constexpr MicroKernels complex_kernels() {
  return {{nullptr, complex_kernel<T, 1>, complex_kernel<T, 2>, complex_kernel<T, 3>, complex_kernel<T, 4>,
           complex_kernel<T, 5>, complex_kernel<T, 6>}};
}

constexpr MicroKernels kFloats = kernels<F32>(), kPairs = kernels<Pairs>(), kF64 = kernels<F64>(),
                       kBf16 = kernels<Bf16>(), kF16 = kernels<F16>(), kInt32 = kernels<Int32>(),
                       kC64 = complex_kernels<C64>(), kC128 = complex_kernels<C128>();

}  // namespace

const MicroKernels* micro_kernels_avx2(PanelFormat format) {
  switch (format) {
    case PanelFormat::floats:
      return &kFloats;
    case PanelFormat::pairs:
      return &kPairs;
    case PanelFormat::f64:
      return &kF64;
    case PanelFormat::int32:
      return &kInt32;
    case PanelFormat::c64:
      return &kC64;
    case PanelFormat::c128:
      return &kC128;
    case PanelFormat::bf16:
      return &kBf16;
    case PanelFormat::f16:
      return &kF16;
    default:
      return nullptr;
  }
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

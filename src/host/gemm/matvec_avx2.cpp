// A vector times a matrix in AVX2 with FMA. Lanes are columns whichever way the matrix lies, so that every sum runs in
// order of depth: where depth is what lies side by side, squares are transposed in registers. Called only where
// simd_best() says avx2. Everything lives in an unnamed namespace, so none of it can stand in for a portable function.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/gemm/matvec.h"

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
  static constexpr int64_t kLanes = 8;
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static Vector splat(const float* p) { return _mm256_broadcast_ss(p); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
  static float fma(float a, float b, float sum) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(sum)));
  }
  static void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
  static __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vector load(const float* p, __m256i mask) { return _mm256_maskload_ps(p, mask); }
  static void store(float* p, Vector v, __m256i mask) { _mm256_maskstore_ps(p, mask, v); }
  // v[d] = column by column what lay row by row.
  static void transpose(Vector (&v)[8]) {
    Vector t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }
};

struct F64 {
  using Unit = double;
  using Vector = __m256d;
  static constexpr int64_t kLanes = 4;
  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector load(const double* p) { return _mm256_loadu_pd(p); }
  static Vector splat(const double* p) { return _mm256_broadcast_sd(p); }
  static Vector fma(Vector a, Vector b, Vector sum) { return _mm256_fmadd_pd(a, b, sum); }
  static double fma(double a, double b, double sum) {
    return _mm_cvtsd_f64(_mm_fmadd_sd(_mm_set_sd(a), _mm_set_sd(b), _mm_set_sd(sum)));
  }
  static void store(double* p, Vector v) { _mm256_storeu_pd(p, v); }
  static __m256i first(int64_t n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
  static Vector load(const double* p, __m256i mask) { return _mm256_maskload_pd(p, mask); }
  static void store(double* p, Vector v, __m256i mask) { _mm256_maskstore_pd(p, mask, v); }
  static void transpose(Vector (&v)[4]) {
    const Vector a = _mm256_unpacklo_pd(v[0], v[1]), b = _mm256_unpackhi_pd(v[0], v[1]);
    const Vector c = _mm256_unpacklo_pd(v[2], v[3]), d = _mm256_unpackhi_pd(v[2], v[3]);
    v[0] = _mm256_permute2f128_pd(a, c, 0x20), v[1] = _mm256_permute2f128_pd(b, d, 0x20);
    v[2] = _mm256_permute2f128_pd(a, c, 0x31), v[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
};

// V vectors of columns that lie side by side.
template <class T, int V>
void dense_columns(const typename T::Unit* a, const typename T::Unit* b, int64_t step, int64_t depth,
                   typename T::Unit* to) {
  typename T::Vector sum[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) sum[v] = T::zero();
  for (int64_t d = 0; d < depth; ++d, b += step) {
    const auto x = T::splat(a + d);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] = T::fma(x, T::load(b + T::kLanes * v), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) T::store(to + T::kLanes * v, sum[v]);
}

// Up to four steps of depth of eight columns `apart`, added to what they have: masked, so that nothing beyond is read.
void few_steps(const float* a, const float* b, int64_t apart, int64_t steps, float* to) {
  const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(int(steps)), _mm_setr_epi32(0, 1, 2, 3));
  __m256 row[4], half[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    row[i] = _mm256_set_m128(_mm_maskload_ps(b + (i + 4) * apart, mask), _mm_maskload_ps(b + i * apart, mask));
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    half[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    half[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  const __m256 step[4] = {_mm256_shuffle_ps(half[0], half[2], 0x44), _mm256_shuffle_ps(half[0], half[2], 0xee),
                          _mm256_shuffle_ps(half[1], half[3], 0x44), _mm256_shuffle_ps(half[1], half[3], 0xee)};
  __m256 sum = _mm256_loadu_ps(to);
#pragma GCC unroll 4
  for (int d = 0; d < 4; ++d)
    if (d < steps) sum = _mm256_fmadd_ps(_mm256_broadcast_ss(a + d), step[d], sum);
  _mm256_storeu_ps(to, sum);
}

// What is left of depth, of eight columns or four.
void rest_of(const float* a, const float* b, int64_t apart, int64_t depth, float* to) {
  for (int64_t d = 0; d < depth; d += 4) few_steps(a + d, b + d, apart, depth - d < 4 ? depth - d : 4, to);
}
void rest_of(const double* a, const double* b, int64_t apart, int64_t depth, double* to) {
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t j = 0; j < F64::kLanes; ++j) to[j] = F64::fma(a[d], b[j * apart + d], to[j]);
}

// V vectors of columns `apart`, each dense in depth.
template <class T, int V>
void deep_columns(const typename T::Unit* a, const typename T::Unit* b, int64_t apart, int64_t depth,
                  typename T::Unit* to) {
  constexpr int64_t L = T::kLanes;
  typename T::Vector sum[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) sum[v] = T::zero();
  int64_t d = 0;
  for (; d + L <= depth; d += L) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      typename T::Vector square[size_t(L)];
#pragma GCC unroll 8
      for (int i = 0; i < L; ++i) square[i] = T::load(b + (v * L + i) * apart + d);
      T::transpose(square);
#pragma GCC unroll 8
      for (int i = 0; i < L; ++i) sum[v] = T::fma(T::splat(a + d + i), square[i], sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) T::store(to + L * v, sum[v]);
#pragma GCC unroll 4
  for (int v = 0; d < depth && v < V; ++v) rest_of(a + d, b + v * L * apart + d, apart, depth - d, to + L * v);
}

// Columns that fill no vector.
template <class T>
void few_dense(const typename T::Unit* a, const typename T::Unit* b, int64_t step, int64_t depth, int64_t n,
               typename T::Unit* to) {
  const __m256i mask = T::first(n);
  auto sum = T::zero();
  for (int64_t d = 0; d < depth; ++d) sum = T::fma(T::splat(a + d), T::load(b + d * step, mask), sum);
  T::store(to, sum, mask);
}
template <class T>
void few_deep(const typename T::Unit* a, const typename T::Unit* b, int64_t apart, int64_t depth, int64_t n,
              typename T::Unit* to) {
  typename T::Unit sum[T::kLanes] = {};
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t j = 0; j < n; ++j) sum[j] = T::fma(a[d], b[d + j * apart], sum[j]);
  for (int64_t j = 0; j < n; ++j) to[j] = sum[j];
}

template <class T>
void vec_times(const typename T::Unit* a, const typename T::Unit* b, int64_t step, int64_t apart, int64_t depth,
               int64_t n, typename T::Unit* to) {
  constexpr int64_t L = T::kLanes;
  int64_t j = 0;
  if (apart == 1) {
    for (; j + 8 * L <= n; j += 8 * L) dense_columns<T, 8>(a, b + j, step, depth, to + j);
    for (; j + 2 * L <= n; j += 2 * L) dense_columns<T, 2>(a, b + j, step, depth, to + j);
    for (; j + L <= n; j += L) dense_columns<T, 1>(a, b + j, step, depth, to + j);
    if (j < n) few_dense<T>(a, b + j, step, depth, n - j, to + j);
  } else {
    for (; j + 2 * L <= n; j += 2 * L) deep_columns<T, 2>(a, b + j * apart, apart, depth, to + j);
    for (; j + L <= n; j += L) deep_columns<T, 1>(a, b + j * apart, apart, depth, to + j);
    if (j < n) few_deep<T>(a, b + j * apart, apart, depth, n - j, to + j);
  }
}

}  // namespace

VecTimesMatrix<float> vec_times_f32_avx2() { return vec_times<F32>; }
VecTimesMatrix<double> vec_times_f64_avx2() { return vec_times<F64>; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

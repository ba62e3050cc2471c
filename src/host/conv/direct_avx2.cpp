// A few positions by 8 or 16 output features in AVX2 with FMA. Called only where simd_best() says avx2.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/conv/direct.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

namespace trine::host {
namespace {

template <int kRows, int kVectors>
void kernel(const DirectTap* taps, int64_t count, const DirectRun& run, float* to, int64_t ld, bool add) {
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_ps();
  const int64_t features = run.features, step = run.step, weights_step = run.weights_step;
  for (int64_t t = 0; t < count; ++t) {
    const float* from[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) from[r] = taps[t].rows[size_t(r)];
    const float* w = taps[t].weights + run.shift;
    for (int64_t i = 0, at = 0; i < features; ++i, at += step, w += weights_step) {
      __m256 right[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) right[v] = _mm256_loadu_ps(w + 8 * v);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const __m256 left = _mm256_broadcast_ss(from[r] + at);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_fmadd_ps(left, right[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* at = to + r * ld + 8 * v;
      _mm256_storeu_ps(at, add ? _mm256_add_ps(_mm256_loadu_ps(at), sum[r][v]) : sum[r][v]);
    }
}

}  // namespace

const DirectKernels& direct_kernels_avx2() {
  static constexpr DirectKernels kAll = {
      {nullptr, kernel<1, 1>, kernel<2, 1>, kernel<3, 1>, kernel<4, 1>, kernel<5, 1>, kernel<6, 1>},
      {nullptr, kernel<1, 2>, kernel<2, 2>, kernel<3, 2>, kernel<4, 2>, kernel<5, 2>, kernel<6, 2>}};
  return kAll;
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

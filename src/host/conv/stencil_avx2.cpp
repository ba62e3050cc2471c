// Weighed sums of rows in AVX2 with FMA. Called only where simd_best() says avx2.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/conv/stencil.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

namespace trine::host {
namespace {

// V vectors of 8 from i on.
template <int V>
void block(const float* const* in, const float* w, int64_t taps, int64_t i, float* to) {
  __m256 sum[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) sum[v] = _mm256_setzero_ps();
  for (int64_t t = 0; t < taps; ++t) {
    const __m256 x = _mm256_broadcast_ss(w + t);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] = _mm256_fmadd_ps(_mm256_loadu_ps(in[t] + i + 8 * v), x, sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) _mm256_storeu_ps(to + i + 8 * v, sum[v]);
}

void weighed_sum(const float* const* in, const float* w, int64_t taps, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) block<8>(in, w, taps, i, to);
  for (; i + 16 <= n; i += 16) block<2>(in, w, taps, i, to);
  for (; i + 8 <= n; i += 8) block<1>(in, w, taps, i, to);
  for (; i < n; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t)
      sum = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(in[t][i]), _mm_set_ss(w[t]), _mm_set_ss(sum)));
    to[i] = sum;
  }
}

}  // namespace

WeighedSum weighed_sum_avx2() { return weighed_sum; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

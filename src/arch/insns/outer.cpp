// A 6×16 register block over k, as every fast matrix multiply has; no packing, the operands are at most 128 rows.
#include "arch/insns/outer.h"

#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trine::arch {

void outer_product_sum_portable(const float* a, const float* b, float* c, int k, int m, int n) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum = std::fma(a[x * m + i], b[x * n + j], sum);
      c[i * n + j] = sum;
    }
}

#if defined(__x86_64__)
namespace {

template <int kRows>
__attribute__((target("avx2,fma"))) void block(const float* a, const float* b, float* c, int k, int m, int n) {
  __m256 sum[kRows][2];
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
  for (int x = 0; x < k; ++x) {
    const __m256 left = _mm256_loadu_ps(b + x * n), right = _mm256_loadu_ps(b + x * n + 8);
    for (int i = 0; i < kRows; ++i) {
      const __m256 w = _mm256_broadcast_ss(a + x * m + i);
      sum[i][0] = _mm256_fmadd_ps(w, left, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(w, right, sum[i][1]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    _mm256_storeu_ps(c + i * n, sum[i][0]);
    _mm256_storeu_ps(c + i * n + 8, sum[i][1]);
  }
}

__attribute__((target("avx2,fma"))) void edge(const float* a, const float* b, float* c, int k, int m, int n,
                                              int columns) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum = __builtin_fmaf(a[x * m + i], b[x * n + j], sum);
      c[i * n + j] = sum;
    }
}

void outer_product_sum_avx2(const float* a, const float* b, float* c, int k, int m, int n) {
  const int whole = n / 16 * 16;
  for (int j = 0; j < whole; j += 16) {
    int i = 0;
    for (; i + 6 <= m; i += 6) block<6>(a + i, b + j, c + i * n + j, k, m, n);
    for (; i + 2 <= m; i += 2) block<2>(a + i, b + j, c + i * n + j, k, m, n);
    for (; i < m; ++i) block<1>(a + i, b + j, c + i * n + j, k, m, n);
  }
  if (whole < n) edge(a, b + whole, c + whole, k, m, n, n - whole);
}

}  // namespace

void outer_product_sum(const float* a, const float* b, float* c, int k, int m, int n) {
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  (fast ? outer_product_sum_avx2 : outer_product_sum_portable)(a, b, c, k, m, n);
}
#else
void outer_product_sum(const float* a, const float* b, float* c, int k, int m, int n) {
  outer_product_sum_portable(a, b, c, k, m, n);
}
#endif

}  // namespace trine::arch

// Rows of the result in registers, or dots of eight by eight. Everything lives in an unnamed namespace, so none of it
// can stand in for a portable function.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/gemm/small.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

namespace trine::host {
namespace {

using arch::GemmStep;

__m256i first_of_eight(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The first n of eight lanes; a masked store would be slower than these.
void store_few(float* to, int64_t step, __m256 v, int64_t n) {
  if (step == 1 && n == 8) return _mm256_storeu_ps(to, v);
  __m128 half = _mm256_castps256_ps128(v);
  if (step == 1 && n >= 4) {
    _mm_storeu_ps(to, half);
    half = _mm256_extractf128_ps(v, 1);
    to += 4, n -= 4;
  }
  if (step == 1 && n >= 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), half);
    half = _mm_movehl_ps(half, half);
    to += 2, n -= 2;
  }
  if (step == 1) {
    if (n == 1) _mm_store_ss(to, half);
    return;
  }
  alignas(32) float all[8];
  _mm256_store_ps(all, v);
  for (int64_t i = 0; i < n; ++i) to[i * step] = all[i];
}

// kRows rows of kVectors times eight columns at a time; the last vector has `rest` columns.
template <int kRows, int kVectors>
void rows_at_once(const GemmStep& g, const float* a, const float* b, const SmallSums& c, int64_t rest, __m256i mask) {
  __m256 sums[kRows][kVectors];
  for (auto& row : sums)
    for (__m256& sum : row) sum = _mm256_setzero_ps();
  for (int64_t k = 0; k < g.k; ++k) {
    const float* y = b + k * g.b.row_stride;
    __m256 right[kVectors];
    for (int v = 0; v + 1 < kVectors; ++v) right[v] = _mm256_loadu_ps(y + 8 * v);
    const float* last = y + 8 * (kVectors - 1);
    right[kVectors - 1] = rest == 8 ? _mm256_loadu_ps(last) : _mm256_maskload_ps(last, mask);
    for (int r = 0; r < kRows; ++r) {
      const __m256 left = _mm256_broadcast_ss(a + r * g.a.row_stride + k * g.a.col_stride);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_fmadd_ps(left, right[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store_few(c.data + r * c.row_stride + 8 * v * c.col_stride, c.col_stride, sums[r][v],
                v + 1 < kVectors ? 8 : rest);
}

template <int kVectors>
void rows(const GemmStep& g, const float* a, const float* b, const SmallSums& c) {
  const int64_t rest = g.n - 8 * (kVectors - 1);
  const __m256i mask = first_of_eight(rest);
  constexpr int kRows = kVectors <= 3 ? 4 : 1;
  int64_t i = 0;
  const auto from = [&] { return SmallSums{c.data + i * c.row_stride, c.row_stride, c.col_stride}; };
  for (; i + kRows <= g.m; i += kRows) rows_at_once<kRows, kVectors>(g, a + i * g.a.row_stride, b, from(), rest, mask);
  for (; i < g.m; ++i) rows_at_once<1, kVectors>(g, a + i * g.a.row_stride, b, from(), rest, mask);
}

// So little depth and so few columns that all of b is in registers. Its rows, or where `kTransposed` its columns,
// follow each other: what is read beyond one is the next.
template <int kN, int kK, bool kTransposed>
void tiny_rows(const GemmStep& g, const float* a, const float* b, const SmallSums& c) {
  constexpr int kLines = kTransposed ? kN : kK, kLong = kTransposed ? kK : kN;
  const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(kLong), _mm_setr_epi32(0, 1, 2, 3));
  __m128 right[4] = {};
  for (int l = 0; l < kLines; ++l)
    right[l] = kLong == 4 || l + 1 < kLines ? _mm_loadu_ps(b + l * kLong) : _mm_maskload_ps(b + l * kLong, mask);
  if constexpr (kTransposed) _MM_TRANSPOSE4_PS(right[0], right[1], right[2], right[3]);
  for (int64_t i = 0; i < g.m; ++i) {
    const float* x = a + i * g.a.row_stride;
    __m128 sum = _mm_mul_ps(_mm_broadcast_ss(x), right[0]);
    for (int k = 1; k < kK; ++k) sum = _mm_fmadd_ps(_mm_broadcast_ss(x + k * g.a.col_stride), right[k], sum);
    store_few(c.data + i * c.row_stride, c.col_stride, _mm256_castps128_ps256(sum), kN);
  }
}
template <bool kTransposed>
SmallProduct tiny_of(const GemmStep& g) {
  constexpr SmallProduct kTiny[2][2] = {{tiny_rows<3, 3, kTransposed>, tiny_rows<3, 4, kTransposed>},
                                        {tiny_rows<4, 3, kTransposed>, tiny_rows<4, 4, kTransposed>}};
  const bool is_tiny = g.n >= 3 && g.n <= 4 && g.k >= 3 && g.k <= 4;
  const bool follow = kTransposed ? g.b.col_stride == g.k : g.b.row_stride == g.n;
  return is_tiny && follow ? kTiny[g.n - 3][g.k - 3] : nullptr;
}

// Sums of the lanes of four vectors.
__m128 fold(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// Four columns of b at a time, or fewer, by a row of a.
void lines(const GemmStep& g, const float* a, const float* b, const SmallSums& c) {
  const int64_t full = g.k / 8 * 8;
  const __m256i mask = first_of_eight(g.k - full);
  for (int64_t i = 0; i < g.m; ++i) {
    const float* x = a + i * g.a.row_stride;
    float* to = c.data + i * c.row_stride;
    for (int64_t j = 0; j < g.n; j += 4) {
      const float* y[4];
      for (int64_t q = 0; q < 4; ++q) y[q] = b + (j + q < g.n ? j + q : g.n - 1) * g.b.col_stride;
      __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
      for (int64_t k = 0; k < full; k += 8) {
        const __m256 left = _mm256_loadu_ps(x + k);
        for (int q = 0; q < 4; ++q) sums[q] = _mm256_fmadd_ps(left, _mm256_loadu_ps(y[q] + k), sums[q]);
      }
      if (full < g.k) {
        const __m256 left = _mm256_maskload_ps(x + full, mask);
        for (int q = 0; q < 4; ++q) sums[q] = _mm256_fmadd_ps(left, _mm256_maskload_ps(y[q] + full, mask), sums[q]);
      }
      const __m128 all = fold(sums[0], sums[1], sums[2], sums[3]);
      store_few(to + j * c.col_stride, c.col_stride, _mm256_castps128_ps256(all), g.n - j < 4 ? g.n - j : 4);
    }
  }
}

// The same of a depth of so many vectors and of columns by fours: a row of a stays in registers.
template <int kVectors>
void whole_lines(const GemmStep& g, const float* a, const float* b, const SmallSums& c) {
  const int64_t apart = g.b.col_stride;
  for (int64_t i = 0; i < g.m; ++i) {
    const float* x = a + i * g.a.row_stride;
    float* to = c.data + i * c.row_stride;
    __m256 left[kVectors];
    for (int v = 0; v < kVectors; ++v) left[v] = _mm256_loadu_ps(x + 8 * v);
    const float* y = b;
    for (int64_t j = 0; j < g.n; j += 4, y += 4 * apart) {
      __m256 sums[4];
      for (int q = 0; q < 4; ++q) {
        sums[q] = _mm256_mul_ps(left[0], _mm256_loadu_ps(y + q * apart));
        for (int v = 1; v < kVectors; ++v)
          sums[q] = _mm256_fmadd_ps(left[v], _mm256_loadu_ps(y + q * apart + 8 * v), sums[q]);
      }
      const __m128 all = fold(sums[0], sums[1], sums[2], sums[3]);
      if (c.col_stride == 1) {
        _mm_storeu_ps(to + j, all);
      } else {
        store_few(to + j * c.col_stride, c.col_stride, _mm256_castps128_ps256(all), 4);
      }
    }
  }
}

}  // namespace

SmallProduct small_rows_avx2(const GemmStep& g) {
  constexpr SmallProduct kRows[] = {rows<1>, rows<2>, rows<3>, rows<4>, rows<5>, rows<6>, rows<7>, rows<8>};
  if (SmallProduct tiny = tiny_of<false>(g)) return tiny;
  return g.n >= 1 && g.n <= 64 ? kRows[(g.n - 1) / 8] : nullptr;
}

SmallProduct small_lines_avx2(const GemmStep& g) {
  if (SmallProduct tiny = tiny_of<true>(g)) return tiny;
  constexpr SmallProduct kWhole[] = {whole_lines<1>, whole_lines<2>, whole_lines<3>, whole_lines<4>};
  if (g.n % 4 == 0 && g.k % 8 == 0 && g.k >= 8 && g.k <= 32) return kWhole[g.k / 8 - 1];
  return g.k >= 4 ? lines : nullptr;
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

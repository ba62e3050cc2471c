// A 6×16 register block over k, as every fast matrix multiply has. Both operands are packed first: their rows lie a
// power of two apart, which would put a whole column of them into the same few cache sets.
#include "arch/insns/outer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/simd.h"

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

constexpr int kRows = 6, kColumns = 16;

// [k, count] to panels of `width` columns, each [k, width] without gaps; the last one is filled up with zeros.
const float* pack(const float* from, int k, int count, int width, std::vector<float>& room) {
  const int panels = (count + width - 1) / width;
  room.resize(static_cast<size_t>(panels) * static_cast<size_t>(k * width));
  float* to = room.data();
  for (int begin = 0; begin < count; begin += width) {
    const int take = std::min(width, count - begin);
    for (int x = 0; x < k; ++x, to += width) {
      std::memcpy(to, from + x * count + begin, static_cast<size_t>(take) * sizeof(float));
      std::fill(to + take, to + width, 0.0f);
    }
  }
  return room.data();
}

// R rows of a's panel against one panel of b, into c with `pitch` floats between rows.
template <int R>
__attribute__((target("avx2,fma"))) void block(const float* a, const float* b, float* c, int k, int pitch) {
  __m256 sum[R][2];  // in registers only if the loops over it are unrolled early, hence the pragmas
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
  for (int x = 0; x < k; ++x, a += kRows, b += kColumns) {
    const __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) {
      const __m256 w = _mm256_broadcast_ss(a + i);
      sum[i][0] = _mm256_fmadd_ps(w, left, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(w, right, sum[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) {
    _mm256_storeu_ps(c + i * pitch, sum[i][0]);
    _mm256_storeu_ps(c + i * pitch + 8, sum[i][1]);
  }
}
using Block = void (*)(const float*, const float*, float*, int, int);
constexpr Block kBlocks[kRows + 1] = {nullptr, block<1>, block<2>, block<3>, block<4>, block<5>, block<6>};

void outer_product_sum_avx2(const float* a, const float* b, float* c, int k, int m, int n) {
  thread_local std::vector<float> room_a, room_b;
  const float* const left = pack(a, k, m, kRows, room_a);
  const float* const right = pack(b, k, n, kColumns, room_b);
  for (int j = 0; j < n; j += kColumns) {
    const float* const panel = right + static_cast<ptrdiff_t>(j) * k;
    const int columns = std::min(kColumns, n - j);
    for (int i = 0; i < m; i += kRows) {
      const Block f = kBlocks[std::min(kRows, m - i)];
      const float* const weights = left + static_cast<ptrdiff_t>(i) * k;
      if (columns == kColumns) {
        f(weights, panel, c + i * n + j, k, n);
        continue;
      }
      float edge[kRows * kColumns];
      f(weights, panel, edge, k, kColumns);
      for (int r = 0; r < std::min(kRows, m - i); ++r)
        std::memcpy(c + (i + r) * n + j, edge + r * kColumns, static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

}  // namespace
#endif

void outer_product_sum(const float* a, const float* b, float* c, int k, int m, int n) {
#if defined(__x86_64__)
  if (simd_best() == Simd::avx2) return outer_product_sum_avx2(a, b, c, k, m, n);
#endif
  outer_product_sum_portable(a, b, c, k, m, n);
}

}  // namespace trine::arch

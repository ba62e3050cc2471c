// Rows of f32 combined with AVX2. Called only where simd_best() says so. Everything lives in an unnamed namespace, so
// no function compiled for AVX2 can stand in for a portable one at link. Invariant: the bits of the loop in
// windows.cpp.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/windows_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

namespace trine::host {
namespace {

struct Add {
  static __m256 of(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
};
struct Multiply {
  static __m256 of(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
};
// b where the compare holds or b is NaN; -0 is below 0.
template <int kCompare>
struct Choose {
  static __m256 of(__m256 a, __m256 b) {
    const __m256 takes = _mm256_or_ps(_mm256_cmp_ps(b, a, kCompare), _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
    const __m256 equal = _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
    const __m256 of_equal = kCompare == _CMP_GT_OQ ? _mm256_and_ps(a, b) : _mm256_or_ps(a, b);
    return _mm256_blendv_ps(_mm256_blendv_ps(a, b, takes), of_equal, equal);
  }
};

template <class F>
void combine(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, F::of(_mm256_loadu_ps(to + i), _mm256_loadu_ps(from + i)));
  if (i == count) return;
  const __m256i rest = _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count - i)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256 a = _mm256_maskload_ps(to + i, rest), b = _mm256_maskload_ps(from + i, rest);
  _mm256_maskstore_ps(to + i, rest, F::of(a, b));
}

// kVectors whole vectors to a row, so that nothing is left to ask of a row.
template <class F, int kVectors>
void combine_whole(const RowPair* rows, size_t many) {
  for (size_t r = 0; r < many; ++r) {
    const auto [to, from] = rows[r];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      _mm256_storeu_ps(to + 8 * v, F::of(_mm256_loadu_ps(to + 8 * v), _mm256_loadu_ps(from + 8 * v)));
  }
}

template <class F>
void combine_rows(const RowPair* rows, size_t many, int64_t count) {
  if (count == 8) return combine_whole<F, 1>(rows, many);
  if (count == 16) return combine_whole<F, 2>(rows, many);
  if (count == 32) return combine_whole<F, 4>(rows, many);
  for (size_t r = 0; r < many; ++r) combine<F>(rows[r].to, rows[r].from, count);
}

// f(Add()) and so on by kind; null where nothing is combined.
template <class Function, class F>
Function by_kind(arch::WindowKind kind, F&& f) {
  switch (kind) {
    case arch::WindowKind::add:
      return f(Add());
    case arch::WindowKind::multiply:
      return f(Multiply());
    case arch::WindowKind::maximum:
      return f(Choose<_CMP_GT_OQ>());
    case arch::WindowKind::minimum:
      return f(Choose<_CMP_LT_OQ>());
    default:
      return nullptr;
  }
}

}  // namespace

CombineF32 combine_f32_avx2(arch::WindowKind kind) {
  return by_kind<CombineF32>(kind, []<class F>(F) { return &combine<F>; });
}
CombineRowsF32 combine_rows_f32_avx2(arch::WindowKind kind) {
  return by_kind<CombineRowsF32>(kind, []<class F>(F) { return &combine_rows<F>; });
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

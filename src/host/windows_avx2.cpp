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

}  // namespace

CombineF32 combine_f32_avx2(arch::WindowKind kind) {
  switch (kind) {
    case arch::WindowKind::add:
      return combine<Add>;
    case arch::WindowKind::multiply:
      return combine<Multiply>;
    case arch::WindowKind::maximum:
      return combine<Choose<_CMP_GT_OQ>>;
    case arch::WindowKind::minimum:
      return combine<Choose<_CMP_LT_OQ>>;
    default:
      return nullptr;
  }
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

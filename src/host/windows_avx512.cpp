// Rows of bf16 combined in f32 with AVX-512 and its conversions. Called only where has_avx512_bf16() says so.
// Everything lives in an unnamed namespace, so no function compiled for AVX-512 can stand in for a portable one at
// link. Invariant: the bits of the loop in windows.cpp.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/windows_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms inside the intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace trine::host {
namespace {

struct Add {
  static __m512 of(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
};
struct Multiply {
  static __m512 of(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
};
// b where the compare holds or b is NaN; -0 is below 0.
template <int kCompare>
struct Choose {
  static __m512 of(__m512 a, __m512 b) {
    const __mmask16 takes = _mm512_cmp_ps_mask(b, a, kCompare) | _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q);
    const __mmask16 equal = _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
    const __m512 chosen = _mm512_mask_blend_ps(takes, a, b);
    if constexpr (kCompare == _CMP_GT_OQ) return _mm512_mask_and_ps(chosen, equal, a, b);
    return _mm512_mask_or_ps(chosen, equal, a, b);
  }
};

__m512 widen(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }

// NaNs become the one of their sign; what is below the least normal number is rounded as all others.
[[gnu::noinline, gnu::cold]] __m256i round_unusual(__m512 v) {
  const __m512i x = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i sign = _mm512_and_si512(x, _mm512_set1_epi32(INT32_MIN));
  const __m512i nan = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, up, nan), 16));
}

__m256i round(__m512 v) {
  constexpr int kNanOrBelowNormal = 0x01 | 0x80 | 0x20;  // the processor keeps a NaN's bits and drops small numbers
  if (_mm512_fpclass_ps_mask(v, kNanOrBelowNormal)) [[unlikely]]
    return round_unusual(v);
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
}

template <class F>
void combine(uint16_t* to, const uint16_t* from, int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512 a = widen(_mm256_loadu_epi16(to + i)), b = widen(_mm256_loadu_epi16(from + i));
    _mm256_storeu_epi16(to + i, round(F::of(a, b)));
  }
  if (i == count) return;
  const auto rest = __mmask16((1u << (count - i)) - 1);
  const __m512 a = widen(_mm256_maskz_loadu_epi16(rest, to + i)), b = widen(_mm256_maskz_loadu_epi16(rest, from + i));
  _mm256_mask_storeu_epi16(to + i, rest, round(F::of(a, b)));
}

}  // namespace

CombineBf16 combine_bf16_avx512(arch::WindowKind kind) {
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

// The row loops of attention compiled for AVX2 with FMA. Called only where simd_best() says avx2.
// The templates come after the pragma, so that they are compiled for it; their build type is this file's own.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "host/attention/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#include "host/attention/rows.h"

namespace trine::host {

namespace {

struct AttentionAvx2 {
  static constexpr bool kFma = true;
  using V = __m256;
  static V splat(float x) { return _mm256_set1_ps(x); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(V v, float* p) { _mm256_storeu_ps(p, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static float sum(V v) {
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
  }
};

}  // namespace

const AttentionKernels& attention_kernels_avx2() { return AttentionRows<AttentionAvx2>::kTable; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

// Microkernels in AVX-512: a step of B is one register, and 24 sums fit. The processors at hand do no more arithmetic
// with it than with AVX2; they read each row of A once for four panels. Called only where the processor has it.
// Everything lives in an unnamed namespace, so no function compiled for AVX-512 can stand in for a portable one at
// link. Invariant: every sum runs as in micro_avx2.cpp, so the two give the same bits.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/gemm/micro.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms inside the intrinsics (GCC bug 105593)
#endif

namespace trine::host {
namespace {

struct F32 {
  static constexpr int64_t kBytes = 64;  // of a step of B
  static __m512 load(const char* b) { return _mm512_loadu_ps(reinterpret_cast<const float*>(b)); }
};

struct Bf16 {
  static constexpr int64_t kBytes = 32;
  static __m512 load(const char* b) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
};

// R rows by P panels. Unrolled everywhere: an index that is not a constant would put the sums into memory. Rows from
// the third on have a pointer of their own, from which an address is at most twice the stride away.
template <class T, int R, int P>
[[gnu::always_inline]] inline void multiply_add(const Rows& rows, const void* b_, int64_t b_stride, int64_t depth,
                                                void* c_, int64_t ld, bool add, Ahead ahead) {
  constexpr int64_t kWidth = 16;
  auto* a = static_cast<const float*>(rows.data);
  auto* third = a + 3 * rows.stride;
  auto* b = static_cast<const char*>(b_);
  auto* next = static_cast<const char*>(ahead.from);
  auto* c = static_cast<float*>(c_);
  __m512 acc[R][P];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      acc[r][p] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char*>(c + r * ld + p * kWidth), _MM_HINT_T0);
    }
  }
#pragma GCC unroll 4
  for (int64_t d = 0; d < depth; ++d) {
    _mm_prefetch(next, _MM_HINT_T1);
    next += ahead.stride;
    __m512 step[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) step[p] = T::load(b + p * b_stride);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(r < 3 ? a[r * rows.stride] : third[(r - 3) * rows.stride]);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = _mm512_fmadd_ps(x, step[p], acc[r][p]);
    }
    a += rows.step;
    third += rows.step;
    b += T::kBytes;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      float* to = c + r * ld + p * kWidth;
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), acc[r][p]) : acc[r][p]);
    }
  }
}

template <class T, int R>
void kernel(const void* a, const void* b, int64_t depth, void* c, int64_t ld, bool add, Ahead ahead) {
  multiply_add<T, R, 1>({a, 1, R}, b, 0, depth, c, ld, add, ahead);
}

template <class T, int R, int P = int(kPanelsWide)>
void wide(Rows a, const void* b, int64_t b_stride, int64_t depth, void* c, int64_t ld, bool add, Ahead ahead) {
  multiply_add<T, R, P>(a, b, b_stride, depth, c, ld, add, ahead);
}

template <class T>
constexpr MicroKernels kernels() {
  return {{nullptr, kernel<T, 1>, kernel<T, 2>, kernel<T, 3>, kernel<T, 4>, kernel<T, 5>, kernel<T, 6>},
          {nullptr, wide<T, 1>, wide<T, 2>, wide<T, 3>, wide<T, 4>, wide<T, 5>, wide<T, 6>},
          {nullptr, nullptr, wide<T, 1, 2>, wide<T, 1, 3>}};
}

constexpr MicroKernels kFloats = kernels<F32>(), kBf16 = kernels<Bf16>();

}  // namespace

const MicroKernels* micro_kernels_avx512(PanelFormat format) {
  if (format == PanelFormat::floats) return &kFloats;
  return format == PanelFormat::bf16 ? &kBf16 : nullptr;
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

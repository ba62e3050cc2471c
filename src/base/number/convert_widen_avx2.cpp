// Widening rows to f32 in AVX2 with F16C. Called only where simd_best() says avx2; twin: convert_round_avx2.cpp.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
// Invariant: bit-equal to the portable kernels, tails included; tests/base/number_convert.cpp holds them together.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "base/number/convert.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

namespace trine {
namespace {

using Bytes = const uint8_t*;

__m128i load16(Bytes p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
__m128i load8(Bytes p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
__m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
void store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
__m256i splat(uint32_t v) { return _mm256_set1_epi32(int(v)); }

// Steps: kStep elements of kBits from `in` to `out`.

struct WidenBf16 {
  static constexpr int kStep = 16, kBits = 16;
  static void step(Bytes in, float* out) {
    for (int h = 0; h < 2; ++h) {
      store32(out + 8 * h, _mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(in + 16 * h)), 16));
    }
  }
};

struct WidenTf32 {
  static constexpr int kStep = 8, kBits = 32;
  static void step(Bytes in, float* out) { store32(out, _mm256_and_si256(load32(in), splat(0xffffe000))); }
};

struct WidenF16 {
  static constexpr int kStep = 16, kBits = 16;
  static void step(Bytes in, float* out) {
    for (int h = 0; h < 2; ++h) _mm256_storeu_ps(out + 8 * h, _mm256_cvtph_ps(load16(in + 16 * h)));
  }
};

// 8-bit floats by way of f16: the mantissa moves to f16's place, and a power of two makes up for the bias.
template <FloatFormat F>
struct WidenF8 {
  static constexpr int kStep = 32, kBits = 8;
  static void step(Bytes in, float* out) {
    __m256i x = load32(in);
    __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi8(0x7f));
    __m256i special = _mm256_cmpgt_epi8(magnitude, _mm256_set1_epi8(char(F.max_bits)));
    bool plain = _mm256_testz_si256(special, special);
    for (int h = 0; h < 2; ++h) {
      __m256i wide = _mm256_cvtepi8_epi16(load16(in + 16 * h));
      __m256i half = _mm256_slli_epi16(wide, 10 - F.mantissa_bits);
      // Copies of the sign fell between it and the exponent.
      if constexpr (F.exponent_bits < 5) half = _mm256_and_si256(half, _mm256_set1_epi16(kKeep));
      store(plain ? half : with_specials(half, wide), out + 16 * h);
    }
  }

 private:
  static constexpr short kKeep = short(0x8000 | ((1 << (10 + F.exponent_bits)) - 1));

  static __m256i with_specials(__m256i half, __m256i wide) {
    __m256i magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_and_si256(wide, _mm256_set1_epi16(short(0x8000)));
    __m256i special = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(short(F.max_bits)));
    __m256i nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(short(F.max_bits + F.has_inf)));
    half = _mm256_blendv_epi8(half, _mm256_or_si256(sign, _mm256_set1_epi16(0x7c00)), special);
    return _mm256_blendv_epi8(half, _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00)), nan);
  }
  static void store(__m256i half, float* out) {
    const __m256 scale = _mm256_set1_ps(float(1 << (15 - F.bias)));
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), scale));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), scale));
  }
};

__m128i unpack_nibbles(Bytes in) {
  __m128i x = load8(in);
  __m128i low = _mm_and_si128(x, _mm_set1_epi8(15));
  __m128i high = _mm_and_si128(_mm_srli_epi16(x, 4), _mm_set1_epi8(15));
  return _mm_unpacklo_epi8(low, high);
}

struct WidenF4 {
  static constexpr int kStep = 16, kBits = 4;
  static void step(Bytes in, float* out) {
    // The high byte of each value as f16; the low byte is always zero.
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, char(0x80), char(0xb8), char(0xbc),
                                        char(0xbe), char(0xc0), char(0xc2), char(0xc4), char(0xc6));
    __m128i high = _mm_shuffle_epi8(table, unpack_nibbles(in));
    __m128i zero = _mm_setzero_si128();
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, high)));
    _mm256_storeu_ps(out + 8, _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, high)));
  }
};

template <bool kSigned>
struct WidenInt4 {
  static constexpr int kStep = 16, kBits = 4;
  static void step(Bytes in, float* out) {
    __m128i x = unpack_nibbles(in);
    if (kSigned) x = _mm_sub_epi8(_mm_xor_si128(x, _mm_set1_epi8(8)), _mm_set1_epi8(8));
    _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)));
    _mm256_storeu_ps(out + 8, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x))));
  }
};

template <bool kSigned>
struct WidenInt8 {
  static constexpr int kStep = 16, kBits = 8;
  static void step(Bytes in, float* out) {
    for (int h = 0; h < 2; ++h) {
      __m128i x = load8(in + 8 * h);
      __m256i wide = kSigned ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x);
      _mm256_storeu_ps(out + 8 * h, _mm256_cvtepi32_ps(wide));
    }
  }
};

template <bool kSigned>
struct WidenInt16 {
  static constexpr int kStep = 16, kBits = 16;
  static void step(Bytes in, float* out) {
    for (int h = 0; h < 2; ++h) {
      __m128i x = load16(in + 16 * h);
      __m256i wide = kSigned ? _mm256_cvtepi16_epi32(x) : _mm256_cvtepu16_epi32(x);
      _mm256_storeu_ps(out + 8 * h, _mm256_cvtepi32_ps(wide));
    }
  }
};

struct WidenS32 {
  static constexpr int kStep = 8, kBits = 32;
  static void step(Bytes in, float* out) { _mm256_storeu_ps(out, _mm256_cvtepi32_ps(load32(in))); }
};

struct WidenU32 {
  static constexpr int kStep = 8, kBits = 32;
  static void step(Bytes in, float* out) {
    // Both halves are exact in f32, so only the sum rounds.
    __m256i x = load32(in);
    __m256 high = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16)), _mm256_set1_ps(65536));
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(x, splat(0xffff)));
    _mm256_storeu_ps(out, _mm256_add_ps(high, low));
  }
};

struct WidenBool {
  static constexpr int kStep = 8, kBits = 8;
  static void step(Bytes in, float* out) {
    __m256i zero = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(load8(in)), _mm256_setzero_si256());
    _mm256_storeu_ps(out, _mm256_andnot_ps(_mm256_castsi256_ps(zero), _mm256_set1_ps(1)));
  }
};

// A tail goes through a zero-filled step of its own. Steps are inlined, so constants stay in registers.
template <class K>
void widen_loop(const void* from, float* to, size_t n) {
  Bytes p = static_cast<Bytes>(from);
  size_t i = 0;
  for (; i + K::kStep <= n; i += K::kStep) K::step(p + i * K::kBits / 8, to + i);
  if (i == n) return;
  uint8_t in[K::kStep * K::kBits / 8] = {};
  float out[K::kStep];
  std::memcpy(in, p + i * K::kBits / 8, ((n - i) * K::kBits + 7) / 8);
  widen_loop<K>(in, out, K::kStep);
  std::memcpy(to + i, out, (n - i) * sizeof(float));
}

struct WidenRow {
  Dtype dtype;
  WidenLoop widen;
};

// f32, the 64-bit integers and f8e8m0 (one scale a block) stay with the portable loops.
constexpr WidenRow kRows[] = {
    {Dtype::tf32, widen_loop<WidenTf32>},
    {Dtype::bf16, widen_loop<WidenBf16>},
    {Dtype::f16, widen_loop<WidenF16>},
    {Dtype::f8e4m3, widen_loop<WidenF8<formats::kF8e4m3>>},
    {Dtype::f8e4m3fn, widen_loop<WidenF8<formats::kF8e4m3fn>>},
    {Dtype::f8e5m2, widen_loop<WidenF8<formats::kF8e5m2>>},
    {Dtype::f8e3m4, widen_loop<WidenF8<formats::kF8e3m4>>},
    {Dtype::f4e2m1, widen_loop<WidenF4>},
    {Dtype::boolean, widen_loop<WidenBool>},
    {Dtype::s4, widen_loop<WidenInt4<true>>},
    {Dtype::u4, widen_loop<WidenInt4<false>>},
    {Dtype::s8, widen_loop<WidenInt8<true>>},
    {Dtype::u8, widen_loop<WidenInt8<false>>},
    {Dtype::s16, widen_loop<WidenInt16<true>>},
    {Dtype::u16, widen_loop<WidenInt16<false>>},
    {Dtype::s32, widen_loop<WidenS32>},
    {Dtype::u32, widen_loop<WidenU32>},
};

}  // namespace

WidenLoop widen_avx2(Dtype dtype) {
  for (const WidenRow& r : kRows) {
    if (r.dtype == dtype) return r.widen;
  }
  return nullptr;
}

}  // namespace trine
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

// Rounding rows of f32 in AVX2 with F16C. Called only where simd_best() says avx2; twin: convert_widen_avx2.cpp.
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

__m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
void store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
void store16(void* p, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
__m256i splat(uint32_t v) { return _mm256_set1_epi32(int(v)); }

// Eight f32 to eight codes in 32-bit lanes. Steps test for NaN once and take the slower form if there is one.

__m256i magnitude_of(__m256i x) { return _mm256_and_si256(x, splat(0x7fffffff)); }

__m256i with_sign(__m256i code, __m256i x, int sign_at) {
  return _mm256_or_si256(code, _mm256_slli_epi32(_mm256_srli_epi32(x, 31), sign_at));
}

// Unsigned a < b in each lane.
__m256i below(__m256i a, __m256i b) {
  return _mm256_cmpgt_epi32(_mm256_xor_si256(b, splat(0x80000000)), _mm256_xor_si256(a, splat(0x80000000)));
}

template <int kVectors>
bool any_nan(const float* in) {
  __m256 found = _mm256_setzero_ps();
  for (int v = 0; v < kVectors; v += 2) {
    __m256 pair = _mm256_cmp_ps(_mm256_loadu_ps(in + 8 * v), _mm256_loadu_ps(in + 8 * v + 8), _CMP_UNORD_Q);
    found = v == 0 ? pair : _mm256_or_ps(found, pair);
  }
  return !_mm256_testz_si256(_mm256_castps_si256(found), _mm256_castps_si256(found));
}

// Replaces the codes of NaNs, signed ones in and out.
template <FloatFormat F>
__m256i with_nan(__m256i code, __m256i x) {
  __m256i nan = _mm256_cmpgt_epi32(magnitude_of(x), splat(0x7f800000));
  if constexpr (!F.has_nan) x = _mm256_xor_si256(x, nan);
  return _mm256_blendv_epi8(code, with_sign(splat(F.nan_bits), x, F.sign_at()), nan);
}

// bf16 and tf32 have f32's exponent: one add rounds, and an overflow carries into infinity by itself.
template <FloatFormat F>
__m256i round_same_exponent(__m256i x) {
  constexpr int kShift = 23 - F.mantissa_bits;
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, kShift), splat(1));
  __m256i half = _mm256_add_epi32(odd, splat((1u << (kShift - 1)) - 1));
  return _mm256_srli_epi32(_mm256_add_epi32(x, half), kShift);
}

// The code without its sign. Clamping to the value after the largest finite, or to the largest where the format
// saturates, leaves no compare for overflow: the code after the largest is what overflow becomes.
template <FloatFormat F>
__m256i round_magnitude(__m256i x) {
  static_assert(F.overflow != Overflow::nan || F.nan_bits == F.max_bits + 1);
  constexpr int kShift = 23 - F.mantissa_bits;
  constexpr uint32_t kOffset = uint32_t(127 - F.bias) << 23;
  constexpr uint32_t kTop = ((F.max_bits + (F.overflow != Overflow::saturate)) << kShift) + kOffset;
  constexpr uint32_t kMinNormal = kOffset + (1u << 23);
  // Adding this float leaves the subnormal's code in the low bits, rounded by the adder.
  constexpr uint32_t kMagic = uint32_t(127 + 23 + 1 - F.bias - F.mantissa_bits) << 23;
  __m256i clamped = _mm256_min_epu32(magnitude_of(x), splat(kTop));
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(clamped, kShift), splat(1));
  __m256i sum = _mm256_add_epi32(clamped, _mm256_add_epi32(odd, splat((1u << (kShift - 1)) - 1 - kOffset)));
  __m256i normal = _mm256_srli_epi32(sum, kShift);
  __m256 lifted = _mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(splat(kMagic)));
  __m256i subnormal = _mm256_sub_epi32(_mm256_castps_si256(lifted), splat(kMagic));
  return _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(splat(kMinNormal), clamped));
}

template <FloatFormat F>
__m256i round_stochastic(__m256i x, __m256i random) {
  constexpr uint32_t kBeyond = F.max_bits + (F.overflow != Overflow::saturate);
  const __m256i one = splat(1);
  __m256i magnitude = magnitude_of(x);
  __m256i exponent = _mm256_srli_epi32(magnitude, 23);
  __m256i leading = _mm256_andnot_si256(_mm256_cmpeq_epi32(exponent, _mm256_setzero_si256()), splat(0x800000));
  __m256i significand = _mm256_or_si256(_mm256_and_si256(magnitude, splat(0x7fffff)), leading);
  __m256i field = _mm256_add_epi32(_mm256_max_epi32(exponent, one), splat(uint32_t(F.bias - 127)));
  __m256i floor = _mm256_max_epi32(field, one);
  __m256i shift = _mm256_add_epi32(_mm256_sub_epi32(floor, field), splat(23 - F.mantissa_bits));
  // The dropped fraction in 32 bits. Variable shifts by 32 or more, and so by negative counts, give zero.
  __m256i fraction = _mm256_or_si256(_mm256_sllv_epi32(significand, _mm256_sub_epi32(splat(32), shift)),
                                     _mm256_srlv_epi32(significand, _mm256_sub_epi32(shift, splat(32))));
  __m256i base = _mm256_slli_epi32(_mm256_sub_epi32(floor, one), F.mantissa_bits);
  __m256i code = _mm256_add_epi32(base, _mm256_srlv_epi32(significand, shift));
  code = _mm256_min_epi32(_mm256_sub_epi32(code, below(random, fraction)), splat(kBeyond));
  return with_sign(code, x, F.sign_at());
}

// Words travel only with stochastic rounding; a null pointer must not move.
template <bool kStochastic>
const uint32_t* words_at(const uint32_t* random, size_t i) {
  return kStochastic ? random + i : nullptr;
}

// Signed codes, NaNs included.
template <FloatFormat F, bool kStochastic>
__m256i round_codes(const float* in, const uint32_t* random) {
  __m256i x = load32(in), code;
  if constexpr (kStochastic) {
    code = round_stochastic<F>(x, load32(random));
  } else if constexpr (F.exponent_bits == 8) {
    code = round_same_exponent<F>(x);
  } else {
    code = with_sign(round_magnitude<F>(x), x, F.sign_at());
  }
  return with_nan<F>(code, x);
}

// Clamps before it converts, so it saturates; NaN becomes 0.
__m256i round_ints(const float* in, float low, float high) {
  __m256 x = _mm256_loadu_ps(in);
  x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
  x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(low)), _mm256_set1_ps(high));
  return _mm256_cvtps_epi32(x);
}

__m256i pack16(__m256i a, __m256i b) { return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8); }

// Two rounds of packing leave groups of four bytes out of order.
__m256i in_order(__m256i bytes) {
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Codes of four vectors, each below 256, as 32 bytes.
__m256i pack8(__m256i a, __m256i b, __m256i c, __m256i d) {
  return in_order(_mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d)));
}

// 32 nibbles in bytes to 16 bytes, the first of each pair in the low half.
__m128i pack_nibbles(__m256i bytes) {
  __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001));
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
  return _mm256_castsi256_si128(packed);
}

template <FloatFormat F>
struct RoundTo32 {
  static constexpr int kStep = 8, kBits = 32;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t* random) {
    store32(out, _mm256_slli_epi32(round_codes<F, kStochastic>(in, random), F.low_zeros));
  }
};

template <FloatFormat F, bool kStochastic>
__m256i round_words(const float* in, const uint32_t* random) {
  return pack16(round_codes<F, kStochastic>(in, random),
                round_codes<F, kStochastic>(in + 8, words_at<kStochastic>(random, 8)));
}

template <FloatFormat F>
[[gnu::noinline, gnu::cold]] __m256i round_words_with_nan(const float* in) {
  return round_words<F, false>(in, nullptr);
}

struct RoundBf16 {
  static constexpr int kStep = 16, kBits = 16;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t* random) {
    constexpr FloatFormat F = formats::kBf16;
    if constexpr (kStochastic) return store32(out, round_words<F, true>(in, random));
    if (any_nan<2>(in)) return store32(out, round_words_with_nan<F>(in));
    store32(out, pack16(round_same_exponent<F>(load32(in)), round_same_exponent<F>(load32(in + 8))));
  }
};

struct RoundF16 {
  static constexpr int kStep = 16, kBits = 16;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t* random) {
    if constexpr (kStochastic) return store32(out, round_words<formats::kF16, true>(in, random));
    for (int h = 0; h < 2; ++h) {
      __m256 x = _mm256_loadu_ps(in + 8 * h);
      __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
      __m256 quiet = _mm256_or_ps(sign, _mm256_castsi256_ps(splat(0x7fc00000)));
      x = _mm256_blendv_ps(x, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      store16(out + 16 * h, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
  }
};

// 32 codes in bytes; the sign at bit 7, or bit 3 of f4.
template <FloatFormat F, bool kStochastic>
__m256i round_each_byte(const float* in, const uint32_t* random) {
  __m256i codes[4];
  for (int q = 0; q < 4; ++q)
    codes[q] = round_codes<F, kStochastic>(in + 8 * q, words_at<kStochastic>(random, size_t(8 * q)));
  return pack8(codes[0], codes[1], codes[2], codes[3]);
}

template <FloatFormat F>
[[gnu::noinline, gnu::cold]] __m256i round_bytes_with_nan(const float* in) {
  return round_each_byte<F, false>(in, nullptr);
}

template <FloatFormat F, bool kStochastic>
__m256i round_bytes(const float* in, const uint32_t* random) {
  if constexpr (kStochastic) return round_each_byte<F, true>(in, random);
  // Where NaN is the code after the largest, clamping has made it already.
  if (F.nan_bits != F.max_bits + 1 && any_nan<4>(in)) return round_bytes_with_nan<F>(in);
  __m256i codes[4];
  for (int q = 0; q < 4; ++q) codes[q] = round_magnitude<F>(load32(in + 8 * q));
  __m256i code = _mm256_packus_epi16(_mm256_packus_epi32(codes[0], codes[1]), _mm256_packus_epi32(codes[2], codes[3]));
  // Packing with signed saturation keeps every sign.
  __m256i sign = _mm256_packs_epi16(_mm256_packs_epi32(load32(in), load32(in + 8)),
                                    _mm256_packs_epi32(load32(in + 16), load32(in + 24)));
  sign = _mm256_and_si256(sign, _mm256_set1_epi8(char(0x80)));
  if constexpr (F.sign_at() < 7) sign = _mm256_srli_epi16(sign, 7 - F.sign_at());
  return in_order(_mm256_or_si256(code, sign));
}

template <FloatFormat F>
struct RoundTo8 {
  static constexpr int kStep = 32, kBits = 8;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t* random) {
    store32(out, round_bytes<F, kStochastic>(in, random));
  }
};

struct RoundF4 {
  static constexpr int kStep = 32, kBits = 4;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t* random) {
    store16(out, pack_nibbles(round_bytes<formats::kF4e2m1, kStochastic>(in, random)));
  }
};

template <int kLow, int kHigh>
__m256i int_bytes(const float* in) {
  __m256i codes[4];
  for (int q = 0; q < 4; ++q) {
    codes[q] = _mm256_and_si256(round_ints(in + 8 * q, kLow, kHigh), splat(uint32_t(kHigh - kLow)));
  }
  return pack8(codes[0], codes[1], codes[2], codes[3]);
}

template <int kLow, int kHigh>
struct RoundInt8 {
  static constexpr int kStep = 32, kBits = 8;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    store32(out, int_bytes<kLow, kHigh>(in));
  }
};

template <int kLow, int kHigh>
struct RoundInt4 {
  static constexpr int kStep = 32, kBits = 4;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    store16(out, pack_nibbles(int_bytes<kLow, kHigh>(in)));
  }
};

template <int kLow, int kHigh>
struct RoundInt16 {
  static constexpr int kStep = 16, kBits = 16;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    const __m256i mask = splat(0xffff);
    store32(out, pack16(_mm256_and_si256(round_ints(in, kLow, kHigh), mask),
                        _mm256_and_si256(round_ints(in + 8, kLow, kHigh), mask)));
  }
};

struct RoundS32 {
  static constexpr int kStep = 8, kBits = 32;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    __m256 x = _mm256_loadu_ps(in);
    x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);  // out of range converts to 0x80000000
    store32(out, _mm256_xor_si256(_mm256_cvtps_epi32(x), _mm256_castps_si256(over)));
  }
};

struct RoundU32 {
  static constexpr int kStep = 8, kBits = 32;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    const __m256 half = _mm256_set1_ps(0x1p31f);
    __m256 x = _mm256_max_ps(_mm256_loadu_ps(in), _mm256_setzero_ps());  // NaN takes the second: zero
    __m256 high = _mm256_cmp_ps(x, half, _CMP_GE_OQ);
    __m256 over = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p32f), _CMP_GE_OQ);
    __m256i code = _mm256_cvtps_epi32(_mm256_sub_ps(x, _mm256_and_ps(high, half)));
    code = _mm256_xor_si256(code, _mm256_slli_epi32(_mm256_castps_si256(high), 31));
    store32(out, _mm256_or_si256(code, _mm256_castps_si256(over)));
  }
};

struct RoundBool {
  static constexpr int kStep = 32, kBits = 8;
  template <bool kStochastic>
  static void step(const float* in, uint8_t* out, const uint32_t*) {
    __m256i codes[4];
    for (int q = 0; q < 4; ++q) {
      __m256 nonzero = _mm256_cmp_ps(_mm256_loadu_ps(in + 8 * q), _mm256_setzero_ps(), _CMP_NEQ_UQ);
      codes[q] = _mm256_srli_epi32(_mm256_castps_si256(nonzero), 31);
    }
    store32(out, pack8(codes[0], codes[1], codes[2], codes[3]));
  }
};

// A tail goes through a zero-filled step of its own. Steps are inlined, so constants stay in registers.
template <class K, bool kStochastic>
void round_loop(const float* from, void* to, size_t n, const uint32_t* random) {
  uint8_t* p = static_cast<uint8_t*>(to);
  size_t i = 0;
  for (; i + K::kStep <= n; i += K::kStep) {
    K::template step<kStochastic>(from + i, p + i * K::kBits / 8, words_at<kStochastic>(random, i));
  }
  if (i == n) return;
  float in[K::kStep] = {};
  uint32_t words[K::kStep] = {};
  uint8_t out[K::kStep * K::kBits / 8];
  std::memcpy(in, from + i, (n - i) * sizeof(float));
  if (kStochastic) std::memcpy(words, random + i, (n - i) * sizeof(uint32_t));
  round_loop<K, kStochastic>(in, out, K::kStep, words);
  std::memcpy(p + i * K::kBits / 8, out, ((n - i) * K::kBits + 7) / 8);
}

template <class K>
void round_either(const float* from, void* to, size_t n, const uint32_t* random) {
  if (random) return round_loop<K, true>(from, to, n, random);
  round_loop<K, false>(from, to, n, nullptr);
}

struct RoundRow {
  Dtype dtype;
  RoundLoop round;
};

// f32, the 64-bit integers and f8e8m0 (one scale a block) stay with the portable loops.
constexpr RoundRow kRows[] = {
    {Dtype::tf32, round_either<RoundTo32<formats::kTf32>>},
    {Dtype::bf16, round_either<RoundBf16>},
    {Dtype::f16, round_either<RoundF16>},
    {Dtype::f8e4m3, round_either<RoundTo8<formats::kF8e4m3>>},
    {Dtype::f8e4m3fn, round_either<RoundTo8<formats::kF8e4m3fn>>},
    {Dtype::f8e5m2, round_either<RoundTo8<formats::kF8e5m2>>},
    {Dtype::f8e3m4, round_either<RoundTo8<formats::kF8e3m4>>},
    {Dtype::f4e2m1, round_either<RoundF4>},
    {Dtype::boolean, round_either<RoundBool>},
    {Dtype::s4, round_either<RoundInt4<-8, 7>>},
    {Dtype::u4, round_either<RoundInt4<0, 15>>},
    {Dtype::s8, round_either<RoundInt8<-128, 127>>},
    {Dtype::u8, round_either<RoundInt8<0, 255>>},
    {Dtype::s16, round_either<RoundInt16<-32768, 32767>>},
    {Dtype::u16, round_either<RoundInt16<0, 65535>>},
    {Dtype::s32, round_either<RoundS32>},
    {Dtype::u32, round_either<RoundU32>},
};

}  // namespace

RoundLoop round_avx2(Dtype dtype) {
  for (const RoundRow& r : kRows) {
    if (r.dtype == dtype) return r.round;
  }
  return nullptr;
}

}  // namespace trine
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

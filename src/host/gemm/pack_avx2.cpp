// Packing of lanes whose depth is contiguous, by transposing blocks of 8 by 8 words, bf16 widened on the way. Only
// where simd_best() says avx2. Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in
// for a portable one at link.
#if defined(__x86_64__)
#include <immintrin.h>

#include "host/gemm/pack.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

namespace trine::host {
namespace {

[[gnu::always_inline]] inline void transpose8(__m256 v[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  __m256 s[8];
  for (int i = 0; i < 8; i += 4) {
    for (int h = 0; h < 2; ++h) {
      s[i + 2 * h] = _mm256_shuffle_ps(t[i + h], t[i + 2 + h], 0x44);
      s[i + 2 * h + 1] = _mm256_shuffle_ps(t[i + h], t[i + 2 + h], 0xee);
    }
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
  }
}

// The first W of 8 words.
template <int W>
void store_first(float* to, __m256 v) {
  if constexpr (W == 8) return _mm256_storeu_ps(to, v);
  __m128 part = _mm256_castps256_ps128(v);
  if constexpr (W >= 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(v, 1);
    to += 4;
  }
  if constexpr (W % 4 >= 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if constexpr (W % 2 == 1) _mm_store_ss(to, part);
}

// Eight words, or eight bf16 widened to them.
[[gnu::always_inline]] inline __m256 load_wide(const float* from) { return _mm256_loadu_ps(from); }
[[gnu::always_inline]] inline __m256 load_wide(const uint16_t* from) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline float wide(float x) { return x; }
inline float wide(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float out;
  __builtin_memcpy(&out, &bits, 4);
  return out;
}

// W lanes, at most 8, at `to` with `stride` words between steps. Stores of 8 words run over into the next steps, which
// are written after; near the end of a block they are cut to W.
template <int W, class T>
void pack_pointers(const T* const* from, int64_t depth, float* to, int64_t stride) {
  int64_t d = 0;
  for (; d + 8 <= depth; d += 8) {
    __m256 v[8];
    for (int l = 0; l < 8; ++l) v[l] = l < W ? load_wide(from[l] + d) : _mm256_setzero_ps();
    transpose8(v);
    for (int i = 0; i < 8; ++i) {
      float* step = to + (d + i) * stride;
      if (i * W + 8 <= 8 * W) {
        _mm256_storeu_ps(step, v[i]);
      } else {
        store_first<W>(step, v[i]);
      }
    }
  }
  for (; d < depth; ++d) {
    for (int l = 0; l < W; ++l) to[d * stride + l] = wide(from[l][d]);
  }
}

template <int W, class T>
void pack_words(const T* from, int64_t lane_stride, int64_t depth, float* to, int64_t stride) {
  const T* lanes[W];
  for (int l = 0; l < W; ++l) lanes[l] = from + l * lane_stride;
  pack_pointers<W>(lanes, depth, to, stride);
}

bool has_width(int64_t lanes, int64_t width) { return lanes == width && width >= 2 && (width <= 6 || width == 16); }

template <class T>
void pack_width(const T* from, int64_t lane_stride, int64_t width, int64_t depth, float* to) {
  switch (width) {
    case 2:
      return pack_words<2>(from, lane_stride, depth, to, 2);
    case 3:
      return pack_words<3>(from, lane_stride, depth, to, 3);
    case 4:
      return pack_words<4>(from, lane_stride, depth, to, 4);
    case 5:
      return pack_words<5>(from, lane_stride, depth, to, 5);
    case 6:
      return pack_words<6>(from, lane_stride, depth, to, 6);
    default:
      for (int64_t h = 0; h < 16; h += 8) pack_words<8>(from + h * lane_stride, lane_stride, depth, to + h, 16);
  }
}

void pack4(const void* from, int64_t lane_stride, int64_t depth_stride, int64_t lanes, int64_t width, int64_t depth,
           void* to) {
  if (depth_stride != 1 || !has_width(lanes, width)) {
    return unit_pack(4, Simd::portable)(from, lane_stride, depth_stride, lanes, width, depth, to);
  }
  pack_width(static_cast<const float*>(from), lane_stride, width, depth, static_cast<float*>(to));
}

// Lanes without values read from here.
constexpr int64_t kZeros = 512;
alignas(64) constexpr float zeros[kZeros] = {};

void pack_lanes4(const LaneRun* runs, int64_t depth_stride, int64_t width, int64_t depth, void* to_) {
  auto* to = static_cast<float*>(to_);
  bool whole = depth_stride == 1 && width == 6;
  for (int64_t l = 0; l < width; ++l) whole &= runs[l].lo == runs[l].hi || (runs[l].lo == 0 && runs[l].hi == depth);
  if (!whole) return lane_pack(4, Simd::portable)(runs, depth_stride, width, depth, to);
  for (int64_t d = 0; d < depth; d += kZeros) {
    const float* lanes[6];
    for (int l = 0; l < 6; ++l)
      lanes[l] = runs[l].lo == runs[l].hi ? zeros : static_cast<const float*>(runs[l].from) + d;
    pack_pointers<6>(lanes, depth - d < kZeros ? depth - d : kZeros, to + d * 6, 6);
  }
}

}  // namespace

LanePack lane_pack_avx2(int bytes) { return bytes == 4 ? pack_lanes4 : nullptr; }
UnitPack unit_pack_avx2(int bytes) { return bytes == 4 ? pack4 : nullptr; }

bool pack_bf16_avx2(const void* from, int64_t lane_stride, int64_t lanes, int64_t width, int64_t depth, void* to) {
  if (!has_width(lanes, width)) return false;
  pack_width(static_cast<const uint16_t*>(from), lane_stride, width, depth, static_cast<float*>(to));
  return true;
}

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif

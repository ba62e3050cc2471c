// Panels from anything that can gather stored values: widening, pairing and whole packed panels on top of one gather().
// Inside host/ only. S has dtype, family, k (elements of depth), simd, and gather(lane, lanes, width, begin, count,
// to), which writes `count` elements of depth from `begin` of `lanes` lanes as stored, to[depth][width], padded with
// zeros.
#pragma once

#include <algorithm>

#include "host/gemm/pack.h"

namespace trine::host {

constexpr int64_t kPackBlock = 256;  // elements of depth gathered before they are widened: 8 KiB of bf16 panel

// n stored values to the family's format.
void widen_units(Dtype dtype, Family family, const void* from, void* to, int64_t n, Simd simd);
// Whether the stored value is the family's format.
bool is_wide(Dtype dtype, Family family);
// Bytes to[depth][width] to pairs of depth a lane; an odd last one is paired with zero.
void pair_up(const uint8_t* from, int64_t width, int64_t depth, uint8_t* to);

template <class S>
void fill_as_stored(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth,
                    void* to) {
  static_cast<const S*>(ctx)->gather(lane, lanes, width, begin, depth, to);
}

template <class S>
void fill_widened(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& s = *static_cast<const S*>(ctx);
  alignas(64) std::byte staged[kPackBlock * kStepBytes];
  auto* out = static_cast<std::byte*>(to);
  for (int64_t d = 0; d < depth; d += kPackBlock, out += kPackBlock * width * 4) {
    const int64_t count = std::min(kPackBlock, depth - d);
    s.gather(lane, lanes, width, begin + d, count, staged);
    widen_units(s.dtype, s.family, staged, out, count * width, s.simd);
  }
}

template <class S>
void fill_pairs(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& s = *static_cast<const S*>(ctx);
  alignas(64) uint8_t staged[kPackBlock * 16], paired[kPackBlock * 16];
  auto* out = static_cast<int16_t*>(to);
  const int64_t first = 2 * begin, last = std::min(2 * (begin + depth), s.k);
  for (int64_t d = first; d < last; d += kPackBlock, out += kPackBlock * width) {
    const int64_t count = std::min(kPackBlock, last - d);
    s.gather(lane, lanes, width, d, count, staged);
    pair_up(staged, width, count, paired);
    widen_units(s.dtype, s.family, paired, out, (count + count % 2) * width, s.simd);
  }
}

template <class S>
PanelSource panel_source(const S& s) {
  if (s.family == Family::pairs) return {fill_pairs<S>, &s};
  return {is_wide(s.dtype, s.family) ? fill_as_stored<S> : fill_widened<S>, &s};
}

// One whole panel of a packed matrix, as stored.
template <class S>
void store_panel(const S& s, int64_t lane, int64_t lanes, std::byte* to) {
  const int64_t width = panel_width(s.family);
  if (s.family != Family::pairs) return s.gather(lane, lanes, width, 0, s.k, to);
  alignas(64) uint8_t staged[kPackBlock * 16];
  for (int64_t d = 0; d < s.k; d += kPackBlock, to += kPackBlock * width) {
    const int64_t count = std::min(kPackBlock, s.k - d);
    s.gather(lane, lanes, width, d, count, staged);
    pair_up(staged, width, count, reinterpret_cast<uint8_t*>(to));
  }
}

}  // namespace trine::host

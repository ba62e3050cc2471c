// Cuts a multiply into panels of rows by runs of tiles; a panel's rows stay in the first cache while tiles go by.
#include "host/packed/multiply.h"

#include <algorithm>

#include "base/pool.h"
#include "base/simd.h"

namespace trine::host {

namespace {

constexpr int64_t kPanelBytes = 24 << 10;  // of activations that stay while weights pass: most of a first cache
constexpr int64_t kItemWork = 96 << 10;    // products of an item below which handing it out costs more than it gains

bool has_vnni() {
#if defined(__x86_64__)
  static const bool has = has_avx512_dq() && __builtin_cpu_supports("avx512vnni");
  return has;
#else
  return false;
#endif
}

// Of this thread, for one tile written out.
float* tile_buffer(int64_t inputs) {
  thread_local std::vector<float> buffer;
  if (int64_t(buffer.size()) < inputs * kTile) buffer.resize(size_t(inputs * kTile));
  return buffer.data();
}

}  // namespace

const PackedKernels& packed_kernels() {
#if defined(__x86_64__)
  if (has_vnni()) return kPackedAvx512;
  if (simd_best() == Simd::avx2) return kPackedAvx2;
#endif
  return kPackedPortable;
}

void multiply(std::span<const Times> of, const float* x, int64_t rows, int64_t inputs, int64_t stride,
              MultiplyScratch& scratch) {
  const PackedKernels& k = packed_kernels();
  bool codes = false;
  int64_t tiles = 0;
  for (const Times& t : of) codes |= row(t.weight->format()).bits != 0, tiles += t.weight->tiles();
  const bool whole = codes && scratch.whole;
  codes &= !whole;
  QuantisedRows q{};
  if (codes) {
    const int64_t groups = inputs / kGroup;
    scratch.codes.resize(size_t(rows * inputs));
    scratch.scales.resize(size_t(rows * groups)), scratch.sums.resize(size_t(rows * groups * 2));
    q = {scratch.codes.data(), scratch.scales.data(), scratch.sums.data(), inputs};
    parallel_for(rows, std::max<int64_t>(1, 32768 / inputs), [&](int64_t begin, int64_t end) {
      k.quantise(x + begin * stride, end - begin, inputs, stride, scratch.codes.data() + begin * inputs,
                 scratch.scales.data() + begin * groups, scratch.sums.data() + begin * groups * 2);
    });
  }
  const int64_t panel_bytes = whole ? 8 * kPanelBytes : kPanelBytes;  // a tile is written out once for each panel
  const int64_t panel = std::min(std::max<int64_t>(panel_bytes / inputs / (codes ? 1 : 4) / 4 * 4, 4), rows);
  const int64_t panels = (rows + panel - 1) / panel;
  const int64_t run = std::max<int64_t>(4, kItemWork / (inputs * kTile * std::min(panel, rows)) / 2 * 2);
  const int64_t runs = (tiles + run - 1) / run;
  parallel_for(panels * runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row0 = item / runs * panel, count = std::min(panel, rows - row0);
      int64_t first = item % runs * run;
      const int64_t last = std::min(tiles, first + run);
      int64_t base = 0;
      for (const Times& t : of) {
        const int64_t own = t.weight->tiles();
        const int64_t from = std::max(first - base, int64_t{0}), to = std::min(last - base, own);
        if (from < to) {
          if (!row(t.weight->format()).bits)
            k.multiply_floats(*t.weight, from, to, x, stride, row0, count, t.out, t.stride);
          else if (whole)
            k.multiply_whole(*t.weight, from, to, x, stride, row0, count, t.out, t.stride, tile_buffer(inputs));
          else
            k.multiply_codes(*t.weight, from, to, q, row0, count, t.out, t.stride);
        }
        base += own;
      }
    }
  });
}

}  // namespace trine::host

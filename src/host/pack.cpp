// Packing: units are copied into panel order, then widened in one contiguous pass where the format asks for it.
#include "host/pack.h"

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "base/text.h"
#include "host/values.h"

namespace trine::host {

namespace {

constexpr int64_t kRowsAhead = 4;    // prefetched when packing row by row
constexpr int64_t kRowLanes = 512;   // widened at a time
constexpr int64_t kPackBlock = 256;  // steps rearranged before widening: 8 KiB of bf16 panel

struct Units16 {
  uint64_t low = 0, high = 0;
};

template <class U, int W>
void pack_full(const U* from, int64_t lane_stride, int64_t depth_stride, int64_t depth, U* to) {
  if (lane_stride == 1) {
    for (int64_t d = 0; d < depth; ++d) std::memcpy(to + d * W, from + d * depth_stride, W * sizeof(U));
    return;
  }
  for (int64_t d = 0; d < depth; ++d) {
    for (int l = 0; l < W; ++l) to[d * W + l] = from[l * lane_stride + d * depth_stride];
  }
}

template <class U>
void pack_units(const void* from_, int64_t lane_stride, int64_t depth_stride, int64_t lanes, int64_t width,
                int64_t depth, void* to_) {
  auto* from = static_cast<const U*>(from_);
  auto* to = static_cast<U*>(to_);
  using Full = void (*)(const U*, int64_t, int64_t, int64_t, U*);
  static constexpr Full kFull[] = {nullptr,         pack_full<U, 1>, pack_full<U, 2>, pack_full<U, 3>, pack_full<U, 4>,
                                   pack_full<U, 5>, pack_full<U, 6>, nullptr,         pack_full<U, 8>};
  Full full = width == 16 ? pack_full<U, 16> : width <= 8 ? kFull[width] : nullptr;
  if (lanes == width && full) return full(from, lane_stride, depth_stride, depth, to);
  for (int64_t d = 0; d < depth; ++d, to += width) {
    for (int64_t l = 0; l < lanes; ++l) to[l] = from[l * lane_stride + d * depth_stride];
    std::fill(to + lanes, to + width, U{});
  }
}

// Rows of one byte a lane to pairs of depth a lane; `depth` counts elements and an odd last one is paired with zero.
template <class T, class To>
void pair_up(const T* from, int64_t width, int64_t depth, To* to) {
  for (int64_t d = 0; d + 1 < depth; d += 2, from += 2 * width, to += 2 * width) {
    for (int64_t l = 0; l < width; ++l) {
      to[2 * l] = from[l];
      to[2 * l + 1] = from[width + l];
    }
  }
  if (depth % 2 == 0) return;
  for (int64_t l = 0; l < width; ++l) {
    to[2 * l] = from[l];
    to[2 * l + 1] = 0;
  }
}

template <class T, class To>
void widen_ints(const void* from, To* to, int64_t n) {
  auto* p = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = To(p[i]);
}

// n stored values in panel order to the family's format; sub-byte values lie in a byte each.
void widen_units(Dtype dtype, Family family, const void* from, void* to, int64_t n, Simd simd) {
  if (family == Family::pairs) {
    return (dtype == Dtype::s8 || dtype == Dtype::s4 || dtype == Dtype::s2
                ? widen_ints<int8_t, int16_t>
                : widen_ints<uint8_t, int16_t>)(from, static_cast<int16_t*>(to), n);
  }
  if (family == Family::int32) {
    return (dtype == Dtype::s16 ? widen_ints<int16_t, int32_t>
                                : widen_ints<uint16_t, int32_t>)(from, static_cast<int32_t*>(to), n);
  }
  widen_values(dtype, from, static_cast<float*>(to), size_t(n), simd);
}

// Whether the stored value is the family's format.
bool is_wide(Dtype dtype, Family family) {
  return bytes(dtype) == row(family).unit && dtype != Dtype::tf32 && family != Family::pairs;
}

const std::byte* at(const StridedPanels& p, int64_t lane, int64_t depth) {
  return static_cast<const std::byte*>(p.data) + (lane * p.lane_stride + depth * p.depth_stride) * bytes(p.dtype);
}

void fill_units(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& p = *static_cast<const StridedPanels*>(ctx);
  unit_pack(bytes(p.dtype), p.simd)(at(p, lane, begin), p.lane_stride, p.depth_stride, lanes, width, depth, to);
}

void fill_widened(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& p = *static_cast<const StridedPanels*>(ctx);
  alignas(64) std::byte staged[kPackBlock * kStepBytes];
  auto* out = static_cast<std::byte*>(to);
  for (int64_t d = 0; d < depth; d += kPackBlock, out += kPackBlock * width * 4) {
    int64_t count = std::min(kPackBlock, depth - d);
    fill_units(ctx, lane, lanes, width, begin + d, count, staged);
    widen_units(p.dtype, p.family, staged, out, count * width, p.simd);
  }
}

// One step of consecutive lanes, in the family's format, to their panels; the last is padded with zeros.
void scatter_step(const std::byte* from, int64_t size, std::byte* to, int64_t panel_bytes) {
  for (; size >= kStepBytes; size -= kStepBytes, from += kStepBytes, to += panel_bytes)
    std::memcpy(to, from, kStepBytes);
  if (size == 0) return;
  std::memset(to, 0, kStepBytes);
  std::memcpy(to, from, size_t(size));
}

void fill_rows(const void* ctx, int64_t lane, int64_t lanes, int64_t begin, int64_t depth, void* to,
               int64_t panel_bytes) {
  auto& p = *static_cast<const StridedPanels*>(ctx);
  const int64_t unit = row(p.family).unit, width = panel_width(p.family);
  const bool wide = is_wide(p.dtype, p.family);
  alignas(64) std::byte staged[kRowLanes * 4];
  for (int64_t d = 0; d < depth; ++d) {
    for (int64_t l = 0; l < lanes; l += kRowLanes) {
      const int64_t count = std::min(kRowLanes, lanes - l);
      const std::byte* from = at(p, lane + l, begin + d);
      const std::byte* ahead = at(p, lane + l, begin + d + kRowsAhead);
      for (int64_t i = 0; i < count * bytes(p.dtype); i += 64) __builtin_prefetch(ahead + i);
      if (!wide) widen_units(p.dtype, p.family, from, staged, count, p.simd);
      std::byte* step = static_cast<std::byte*>(to) + l / width * panel_bytes + d * kStepBytes;
      scatter_step(wide ? from : staged, count * unit, step, panel_bytes);
    }
  }
}

void fill_pairs(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& p = *static_cast<const StridedPanels*>(ctx);
  alignas(64) uint8_t staged[kPackBlock * 16], paired[kPackBlock * 16];
  auto* out = static_cast<int16_t*>(to);
  const int64_t first = 2 * begin, last = std::min(2 * (begin + depth), p.k);
  for (int64_t d = first; d < last; d += kPackBlock, out += kPackBlock * width) {
    int64_t count = std::min(kPackBlock, last - d);
    fill_units(ctx, lane, lanes, width, d, count, staged);
    pair_up(staged, width, count, paired);
    widen_units(p.dtype, p.family, paired, out, (count + count % 2) * width, p.simd);
  }
}

// One panel of a packed matrix, in its own precision.
void store_panel(const StridedPanels& p, int64_t lane, int64_t lanes, std::byte* to) {
  const int64_t width = panel_width(p.family);
  if (p.family != Family::pairs) return fill_units(&p, lane, lanes, width, 0, p.k, to);
  alignas(64) uint8_t staged[kPackBlock * 16];
  for (int64_t d = 0; d < p.k; d += kPackBlock, to += kPackBlock * width) {
    int64_t count = std::min(kPackBlock, p.k - d);
    fill_units(&p, lane, lanes, width, d, count, staged);
    pair_up(staged, width, count, reinterpret_cast<uint8_t*>(to));
  }
}

int64_t stored_step_bytes(Dtype dtype, Family family) {
  return panel_width(family) * bytes(dtype) * row(family).elements;
}

}  // namespace

Result<Family> family_of(Dtype dtype) {
  if (dtype == Dtype::f64) return Family::f64;
  if (dtype == Dtype::c64) return Family::c64;
  if (dtype == Dtype::c128) return Family::c128;
  if (is_floating(dtype)) return Family::floats;
  if (dtype == Dtype::boolean || (is_integer(dtype) && bits(dtype) <= 8)) return Family::pairs;
  if (is_integer(dtype)) return bits(dtype) == 64 ? Family::int64 : Family::int32;
  return fail(Code::unsupported,
              cat("cannot multiply matrices of ", row(dtype).name, ": packed MX carriers need scales"));
}

UnitPack unit_pack(int bytes, Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) {
    if (UnitPack fast = unit_pack_avx2(bytes)) return fast;
  }
#else
  (void)simd;
#endif
  switch (bytes) {
    case 1:
      return pack_units<uint8_t>;
    case 2:
      return pack_units<uint16_t>;
    case 4:
      return pack_units<uint32_t>;
    case 8:
      return pack_units<uint64_t>;
    default:
      return pack_units<Units16>;
  }
}

PanelSource StridedPanels::source() const {
  if (family == Family::pairs) return {fill_pairs, this};
  const bool by_rows = lane_stride == 1 && depth_stride != 1;
  return {is_wide(dtype, family) ? fill_units : fill_widened, this, by_rows ? fill_rows : nullptr};
}

void PackedMatrix::widen(const std::byte* from, int64_t depth, void* to, Simd simd) const {
  widen_units(dtype_, family_, from, to, depth * panel_width(family_) * row(family_).elements, simd);
}

size_t packed_bytes(Dtype dtype, int64_t k, int64_t n, int64_t batch) {
  auto family = family_of(dtype);
  if (!family) return 0;
  return size_t(batch * ((n + panel_width(*family) - 1) / panel_width(*family)) * depth_steps(*family, k) *
                stored_step_bytes(dtype, *family));
}

Result<PackedMatrix> pack_b(const Matrix& b, int64_t k, int64_t n, int64_t batch, Simd simd) {
  PackedMatrix out;
  out.family_ = TRY(family_of(b.dtype));
  out.dtype_ = b.dtype;
  out.k_ = k;
  out.n_ = n;
  out.batch_ = batch;
  out.wide_ = is_wide(b.dtype, out.family_);
  out.step_bytes_ = stored_step_bytes(b.dtype, out.family_);
  const size_t size = packed_bytes(b.dtype, k, n, batch);
  out.memory_ = Memory(size);
  if (!out.memory_.data())
    return fail(Code::out_of_memory, cat("no ", size, " bytes to pack a ", k, "x", n, " matrix"));
  const int64_t panels = out.panels(), width = panel_width(out.family_);
  parallel_for(batch * panels, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t item = i / panels, lane = i % panels * width;
      auto* data = static_cast<const std::byte*>(b.data) + item * b.batch_stride * bytes(b.dtype);
      const StridedPanels p{data, b.dtype, out.family_, b.col_stride, b.row_stride, k, simd};
      store_panel(p, lane, std::min(width, n - lane), const_cast<std::byte*>(out.panel(item, i % panels)));
    }
  });
  return out;
}

}  // namespace trine::host

// Packing: units are copied into panel order, then widened in one contiguous pass where the format asks for it.
#include "host/gemm/pack.h"

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "base/text.h"
#include "host/gemm/pack_fill.h"
#include "host/thresholds.h"
#include "host/values.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::pack;

template <class U>
void pack_lanes(const LaneRun* runs, int64_t depth_stride, int64_t width, int64_t depth, void* to_) {
  auto* to = static_cast<U*>(to_);
  for (int64_t l = 0; l < width; ++l) {
    const LaneRun& r = runs[l];
    auto* from = static_cast<const U*>(r.from);
    for (int64_t d = 0; d < r.lo; ++d) to[d * width + l] = U{};
    for (int64_t d = r.lo; d < r.hi; ++d) to[d * width + l] = from[d * depth_stride];
    for (int64_t d = r.hi; d < depth; ++d) to[d * width + l] = U{};
  }
}

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

template <class T, class To>
void widen_ints(const void* from, To* to, int64_t n) {
  auto* p = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = To(p[i]);
}

const std::byte* at(const StridedPanels& p, int64_t lane, int64_t depth) {
  return static_cast<const std::byte*>(p.data) + (lane * p.lane_stride + depth * p.depth_stride) * bytes(p.dtype);
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
  alignas(64) std::byte staged[tuned::kRowLanes * 4];
  for (int64_t d = 0; d < depth; ++d) {
    for (int64_t l = 0; l < lanes; l += tuned::kRowLanes) {
      const int64_t count = std::min(tuned::kRowLanes, lanes - l);
      const std::byte* from = at(p, lane + l, begin + d);
      const std::byte* ahead = at(p, lane + l, begin + d + tuned::kRowsAhead);
      for (int64_t i = 0; i < count * bytes(p.dtype); i += 64) __builtin_prefetch(ahead + i);
      if (!wide) widen_units(p.dtype, p.family, from, staged, count, p.simd);
      std::byte* step = static_cast<std::byte*>(to) + l / width * panel_bytes + d * kStepBytes;
      scatter_step(wide ? from : staged, count * unit, step, panel_bytes);
    }
  }
}

#if defined(__x86_64__)
void fill_bf16(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  auto& p = *static_cast<const StridedPanels*>(ctx);
  if (pack_bf16_avx2(at(p, lane, begin), p.lane_stride, lanes, width, depth, to)) return;
  fill_widened<StridedPanels>(ctx, lane, lanes, width, begin, depth, to);
}
#endif

int64_t stored_step_bytes(Dtype dtype, Family family) {
  return panel_width(family) * bytes(dtype) * row(family).elements;
}

}  // namespace

void pair_up(const uint8_t* from, int64_t width, int64_t depth, uint8_t* to) {
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

void widen_units(Dtype dtype, Family family, const void* from, void* to, int64_t n, Simd simd) {
  if (family == Family::pairs) {
    const bool is_signed = row(dtype).kind == DtypeKind::signed_int;
    return (is_signed ? widen_ints<int8_t, int16_t> : widen_ints<uint8_t, int16_t>)(from, static_cast<int16_t*>(to), n);
  }
  if (family == Family::int32) {
    return (dtype == Dtype::s16 ? widen_ints<int16_t, int32_t>
                                : widen_ints<uint16_t, int32_t>)(from, static_cast<int32_t*>(to), n);
  }
  widen_values(dtype, from, static_cast<float*>(to), size_t(n), simd);
}

bool is_wide(Dtype dtype, Family family) {
  return bytes(dtype) == row(family).unit && dtype != Dtype::tf32 && family != Family::pairs;
}

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

LanePack lane_pack(int bytes, Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) {
    if (LanePack fast = lane_pack_avx2(bytes)) return fast;
  }
#else
  (void)simd;
#endif
  switch (bytes) {
    case 1:
      return pack_lanes<uint8_t>;
    case 2:
      return pack_lanes<uint16_t>;
    case 4:
      return pack_lanes<uint32_t>;
    case 8:
      return pack_lanes<uint64_t>;
    default:
      return pack_lanes<Units16>;
  }
}

void StridedPanels::gather(int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t count, void* to) const {
  unit_pack(bytes(dtype), simd)(at(*this, lane, begin), lane_stride, depth_stride, lanes, width, count, to);
}

PanelSource StridedPanels::source() const {
  PanelSource out = panel_source(*this);
  if (is_wide(dtype, family) && depth_stride == 1) {
    out.plain = static_cast<const std::byte*>(data);
    out.lane_stride = lane_stride;
  }
  if (family != Family::pairs && lane_stride == 1 && depth_stride != 1) out.fill_rows = fill_rows;
#if defined(__x86_64__)
  if (dtype == Dtype::bf16 && depth_stride == 1 && simd == Simd::avx2) out.fill = fill_bf16;
#endif
  return out;
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

Result<PackedMatrix> PackedMatrix::make(Dtype dtype, int64_t k, int64_t n, int64_t batch) {
  PackedMatrix out;
  out.family_ = TRY(family_of(dtype));
  out.dtype_ = dtype;
  out.k_ = k;
  out.n_ = n;
  out.batch_ = batch;
  out.wide_ = host::is_wide(dtype, out.family_);
  out.step_bytes_ = stored_step_bytes(dtype, out.family_);
  const size_t size = packed_bytes(dtype, k, n, batch);
  out.memory_ = Memory(size);
  if (!out.memory_.data())
    return fail(Code::out_of_memory, cat("no ", size, " bytes to pack a ", k, "x", n, " matrix"));
  return out;
}

Result<PackedMatrix> pack_b(const Matrix& b, int64_t k, int64_t n, int64_t batch, Simd simd) {
  PackedMatrix out = TRY(PackedMatrix::make(b.dtype, k, n, batch));
  const int64_t panels = out.panels(), width = panel_width(out.family());
  parallel_for(batch * panels, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t item = i / panels, lane = i % panels * width;
      auto* data = static_cast<const std::byte*>(b.data) + item * b.batch_stride * bytes(b.dtype);
      const StridedPanels p{data, b.dtype, out.family(), b.col_stride, b.row_stride, k, simd};
      store_panel(p, lane, std::min(width, n - lane), out.panel(item, i % panels));
    }
  });
  return out;
}

void unpack_b(const PackedMatrix& from, float* to, int64_t row_stride, int64_t col_stride) {
  const int64_t width = panel_width(from.family());
  parallel_for(from.panels(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const auto* panel = reinterpret_cast<const float*>(from.panel(0, p));
      const int64_t lanes = std::min(width, from.n() - p * width);
      for (int64_t d = 0; d < from.k(); ++d)
        for (int64_t l = 0; l < lanes; ++l) to[d * row_stride + (p * width + l) * col_stride] = panel[d * width + l];
    }
  });
}

}  // namespace trine::host

// A panel at a time over the whole depth: one sequential stream a thread.
#include "host/gemm/gemv.h"

#include <algorithm>

#include "base/pool.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::gemv;

// The kernel that reads the panels as they are; formats without one are widened into L1 first.
struct Reader {
  PanelFormat format = PanelFormat::floats;
  bool widens = false;
};
Reader reader_of(const PackedMatrix& b) {
  switch (b.dtype()) {
    case Dtype::bf16:
      return {PanelFormat::bf16, false};
    case Dtype::f16:
      return {PanelFormat::f16, false};
    default:
      return {format_of(b.family()), !b.is_wide()};
  }
}

struct Gemv {
  explicit Gemv(const Blocked& blocked)
      : w(blocked),
        reader(reader_of(*w.packed_b)),
        kernels(micro_kernels(reader.format, w.simd)),
        groups(w.m),
        width(panel_width(w.family)),
        unit(row(w.family).unit),
        a(size_t(w.m * w.depth * unit)) {
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t row = groups.row(g), rows = groups.row(g + 1) - row;
      w.a.fill(w.a.ctx, row, rows, rows, w.begin, w.depth, a.as() + row * w.depth * unit);
    }
  }

  // All rows of panel p into a tile.
  void panel(int64_t p, std::byte* tile, int64_t ld, std::byte* wide) const {
    const PackedMatrix& b = *w.packed_b;
    const std::byte* from = b.panel(w.packed_item, p) + w.begin * b.step_bytes();
    const int64_t cols = std::min(width, w.n - p * width), stride = b.step_bytes() / groups.count;
    for (int64_t d = 0; d < w.depth; d += kDepthBlock, from += kDepthBlock * b.step_bytes()) {
      const int64_t steps = std::min(kDepthBlock, w.depth - d);
      if (reader.widens) b.widen(from, steps, wide, w.simd);
      for (int64_t g = 0; g < groups.count; ++g) {
        const int64_t row = groups.row(g), rows = groups.row(g + 1) - row;
        const int64_t far = groups.count == 1 ? tuned::kNearBytes : kDepthBlock * b.step_bytes();
        const Ahead ahead{from + far + g * steps / groups.count * b.step_bytes(), stride};
        multiply(kernels, w.family, a.as() + (row * w.depth + d * rows) * unit, reader.widens ? wide : from, steps,
                 rows, cols, tile + row * ld * unit, ld, d > 0, ahead);
      }
    }
  }

  // The kernel of panels from p on, and how many; they end before `end`. `direct`: past the last column is not ours.
  struct Wide {
    WideKernel kernel = nullptr;
    int64_t panels = 0;
  };
  Wide wide_at(int64_t p, int64_t end, bool direct) const {
    if (reader.widens || groups.count != 1 || int64_t(w.packed_b->bytes()) > tuned::kCachedBytes) return {};
    const int64_t count = std::min(kPanelsWide, (direct ? std::min(end, w.n / width) : end) - p);
    if (count == kPanelsWide) return {kernels.wide[w.m], count};
    return w.m == 1 && count > 1 ? Wide{kernels.row[count], count} : Wide{};
  }
  void wide_panels(const Wide& wide, int64_t p, std::byte* tile, int64_t ld) const {
    const PackedMatrix& b = *w.packed_b;
    const std::byte* from = b.panel(w.packed_item, p) + w.begin * b.step_bytes();
    const int64_t apart = b.panel(w.packed_item, p + 1) - b.panel(w.packed_item, p);
    for (int64_t d = 0; d < w.depth; d += kDepthBlock, from += kDepthBlock * b.step_bytes()) {
      const Rows rows{a.as() + d * w.m * unit, 1, w.m};
      wide.kernel(rows, from, apart, std::min(kDepthBlock, w.depth - d), tile, ld, d > 0, {from, 0});
    }
  }

  const Blocked& w;
  const Reader reader;
  const MicroKernels& kernels;
  const Groups groups;
  const int64_t width, unit;
  Scratch a;  // each group whole
};

// One row and so little that one thread does it: nothing is shared out, and there is one tile. Panels go side by side
// as evenly as they can, since sums of one panel wait for each other.
bool is_short_row(const Blocked& w) {
  const PackedMatrix& b = *w.packed_b;
  if (w.m != 1 || reader_of(b).widens) return false;
  if (b.panels() < 2 || b.panels() * kStepBytes > tuned::kShortBytes) return false;
  if (!micro_kernels(reader_of(b).format, w.simd).wide[1]) return false;
  return w.n * w.depth <= thresholds::blocked::kInlineProducts && int64_t(b.bytes()) <= tuned::kCachedBytes;
}

void run_short_row(const Blocked& w) {
  const PackedMatrix& b = *w.packed_b;
  const MicroKernels& kernels = micro_kernels(reader_of(b).format, w.simd);
  const int64_t unit = row(w.family).unit, width = panel_width(w.family), panels = b.panels();
  const bool direct = is_direct(w.out, w.family) && w.n % width == 0;
  alignas(64) std::byte own[tuned::kShortBytes];
  std::byte* tile = direct ? static_cast<std::byte*>(w.out.data) : own;
  const Scratch copied(w.a.plain ? 0 : size_t(w.depth * unit));
  if (!w.a.plain) w.a.fill(w.a.ctx, 0, 1, 1, w.begin, w.depth, copied.as());
  const std::byte* a = w.a.plain ? w.a.plain + w.begin * unit : copied.as();
  const int64_t groups = (panels + kPanelsWide - 1) / kPanelsWide;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t p = g * panels / groups, count = (g + 1) * panels / groups - p;
    const std::byte* from = b.panel(w.packed_item, p) + w.begin * b.step_bytes();
    const int64_t apart = b.panel(w.packed_item, p + 1) - b.panel(w.packed_item, p);
    const WideKernel kernel = count == kPanelsWide ? kernels.wide[1] : kernels.row[count];
    for (int64_t d = 0; d < w.depth; d += kDepthBlock, from += kDepthBlock * b.step_bytes())
      kernel({a + d * unit, 1, 1}, from, apart, std::min(kDepthBlock, w.depth - d), tile + p * kStepBytes, w.n, d > 0,
             {from, 0});
  }
  finish_tile(w.out, w.family, tile, w.n, 0, 1, 0, w.n);
}

}  // namespace

bool runs_as_gemv(const Blocked& w) { return w.packed_b && w.m <= tuned::kRows; }

void run_gemv(const Blocked& w) {
  if (is_short_row(w)) return run_short_row(w);
  const Gemv gemv(w);
  const int64_t panels = w.packed_b->panels(), tasks = (panels + tuned::kTaskPanels - 1) / tuned::kTaskPanels;
  const bool direct = is_direct(w.out, w.family);
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte wide[kDepthBlock * kStepBytes];
    alignas(64) std::byte own[tuned::kRows * tuned::kTaskPanels * kStepBytes];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t p0 = t * tuned::kTaskPanels, p1 = std::min(p0 + tuned::kTaskPanels, panels), col0 = p0 * gemv.width;
      std::byte* tile = direct ? static_cast<std::byte*>(w.out.data) + col0 * gemv.unit : own;
      const int64_t ld = direct ? w.out.row_stride : tuned::kTaskPanels * gemv.width;
      for (int64_t p = p0; p < p1;) {
        std::byte* to = tile + (p - p0) * kStepBytes;
        if (const Gemv::Wide several = gemv.wide_at(p, p1, direct); several.kernel) {
          gemv.wide_panels(several, p, to, ld);
          p += several.panels;
        } else {
          gemv.panel(p++, to, ld, wide);
        }
      }
      finish_tile(w.out, w.family, tile, ld, 0, w.m, col0, std::min(p1 * gemv.width, w.n) - col0);
    }
  });
}

}  // namespace trine::host

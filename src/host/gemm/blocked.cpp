// Who packs what: with few rows, or many columns, a task takes some columns and packs its own part of B against all of
// A, packed before; otherwise B is packed first and tasks are blocks of rows (which pack their own A) by columns.
#include "host/gemm/blocked.h"

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "host/gemm/gemv.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::blocked;

constexpr int64_t kPanelBytes =
    (kDepthBlock + 1) * kStepBytes;  // of a block; one step more keeps panels off one L1 set

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Part of the depth, and how its sums relate to the whole.
struct Part {
  int64_t begin = 0, end = 0;
  bool first = true, last = true;
};

// One blocked multiply under way.
struct Run {
  explicit Run(const Blocked& blocked)
      : w(blocked),
        kernels(micro_kernels(format_of(blocked.family), blocked.simd)),
        groups(blocked.m),
        width(panel_width(blocked.family)),
        unit(row(blocked.family).unit),
        panels(ceil_div(blocked.n, width)) {}

  const Blocked& w;
  const MicroKernels& kernels;
  const Groups groups;
  const int64_t width, unit, panels;
  Part part = {};
  std::byte* sums = nullptr;  // m x n, kept between parts, or the result itself; null: tasks have their own
  int64_t sums_ld = 0;
  const std::byte* all_a = nullptr;  // groups from all_a_group on, each whole; null: tasks pack, or none do
  int64_t all_a_group = 0;
  bool plain_a = false;              // kernels read A as it lies
  const std::byte* all_b = nullptr;  // panels in the family's format; null: tasks pack or widen
  int64_t all_b_depth = 0;           // steps of an all_b panel

  int64_t depth() const { return part.end - part.begin; }
  int64_t cols_of(int64_t panel) const { return std::min(width, w.n - panel * width); }
  // Only wide kernels can: every panel must be one of a whole four.
  bool can_be_plain() const { return w.a.plain && kernels.wide[kRowsMax] && w.n % (kPanelsWide * width) == 0; }
  // About as many panels a task, at least one; fours are not cut.
  int64_t chunk_of(int64_t panels_wanted) const {
    const int64_t step = kernels.wide[kRowsMax] && panels_wanted >= kPanelsWide ? kPanelsWide : 1;
    return std::clamp<int64_t>(panels_wanted / step * step, 1, tuned::kChunkPanels);
  }
  int64_t height_of(int64_t group) const { return groups.row(group + 1) - groups.row(group); }
  void fill_a(int64_t group, int64_t d, int64_t steps, std::byte* to) const {
    const int64_t height = height_of(group);
    w.a.fill(w.a.ctx, groups.row(group), height, height, part.begin + d, steps, to);
  }
  void fill_b(int64_t panel, int64_t d, int64_t steps, std::byte* to) const {
    w.b.fill(w.b.ctx, panel * width, cols_of(panel), width, part.begin + d, steps, to);
  }
};

// Groups [g0, g1) by panels [p0, p1) of the result.
struct Task {
  Task(const Run& r, int64_t g0_, int64_t g1_, int64_t p0_, int64_t p1_)
      : run(r),
        g0(g0_),
        g1(g1_),
        p0(p0_),
        p1(p1_),
        row0(run.groups.row(g0)),
        col0(p0 * run.width),
        cols(std::min(p1 * run.width, run.w.n) - col0),
        b_bytes(run.all_b ? 0 : (p1 - p0) * kPanelBytes),
        a_bytes(run.all_a || run.plain_a ? 0 : tuned::kBlockGroups * kRowsMax * kDepthBlock * run.unit),
        scratch(size_t(b_bytes + a_bytes + (run.sums ? 0 : (run.groups.row(g1) - row0) * cols * run.unit))),
        tile(run.sums ? run.sums + (row0 * run.sums_ld + col0) * run.unit : scratch.as() + b_bytes + a_bytes),
        ld(run.sums ? run.sums_ld : cols) {}

  void execute() {
    for (int64_t d = 0; d < run.depth(); d += kDepthBlock) {
      const int64_t steps = std::min(kDepthBlock, run.depth() - d);
      find_b(d, steps);
      for (int64_t gb = g0; gb < g1; gb += tuned::kBlockGroups) {
        const int64_t ge = std::min(gb + tuned::kBlockGroups, g1);
        find_a(gb, ge, d, steps);
        for (int64_t p = p0, step = 1; p < p1; p += step) {
          step = panels_at(p);
          multiply_panels(p, step, ge - gb, d, steps);
        }
        if (d + steps == run.depth() && run.part.last) {
          const int64_t row = run.groups.row(gb);
          finish_tile(run.w.out, run.w.family, at(row, col0), ld, row, run.groups.row(ge) - row, col0, cols);
        }
      }
    }
  }

 private:
  std::byte* at(int64_t row, int64_t col) const { return tile + ((row - row0) * ld + col - col0) * run.unit; }

  // The block of B: where it is, or copied.
  void find_b(int64_t d, int64_t steps) {
    if (run.all_b) {
      b = run.all_b + (p0 * run.all_b_depth + d) * kStepBytes;
      b_stride = run.all_b_depth * kStepBytes;
      return;
    }
    b = scratch.as();
    b_stride = kPanelBytes;
    if (const PackedMatrix* packed = run.w.packed_b) {
      for (int64_t p = p0; p < p1; ++p) {
        const std::byte* from = packed->panel(run.w.packed_item, p) + (run.part.begin + d) * packed->step_bytes();
        packed->widen(from, steps, scratch.as() + (p - p0) * b_stride, run.w.simd);
      }
      return;
    }
    if (run.w.b.fill_rows) {
      return run.w.b.fill_rows(run.w.b.ctx, col0, cols, run.part.begin + d, steps, scratch.as(), kPanelBytes);
    }
    for (int64_t p = p0; p < p1; ++p) run.fill_b(p, d, steps, scratch.as() + (p - p0) * b_stride);
  }

  void find_a(int64_t gb, int64_t ge, int64_t d, int64_t steps) {
    for (int64_t g = gb; g < ge; ++g) {
      const int64_t row = run.groups.row(g), height = run.height_of(g);
      const std::byte* data = nullptr;
      if (run.plain_a) {
        data = run.w.a.plain + (row * run.w.a.lane_stride + run.part.begin + d) * run.unit;
      } else if (run.all_a) {
        data = run.all_a + ((row - run.groups.row(run.all_a_group)) * run.depth() + d * height) * run.unit;
      } else {
        std::byte* to = scratch.as() + b_bytes + (row - run.groups.row(gb)) * kDepthBlock * run.unit;
        run.fill_a(g, d, steps, to);
        data = to;
      }
      a[g - gb] = {data, row, height};
    }
  }

  // How many panels one kernel takes from here: several only where all their columns are wanted.
  int64_t panels_at(int64_t p) const {
    const bool whole = p + kPanelsWide <= p1 && (p + kPanelsWide) * run.width <= run.w.n;
    return run.kernels.wide[kRowsMax] && whole ? kPanelsWide : 1;
  }
  // All groups of the block; together they fetch what comes next.
  void multiply_panels(int64_t p, int64_t panels, int64_t count, int64_t d, int64_t steps) const {
    const std::byte* panel = b + (p - p0) * b_stride;
    const int64_t cols_here = run.cols_of(p);
    const bool add = d > 0 || !run.part.first;
    for (int64_t g = 0; g < count; ++g) {
      std::byte* c = at(a[g].row, p * run.width);
      // Groups [first, first + share) fetch one of the next panels.
      const int64_t there = g * panels / count, first = ceil_div(there * count, panels);
      const int64_t share = ceil_div((there + 1) * count, panels) - first;
      const Next next = next_after(p + panels - 1 + there, d, steps);
      const int64_t stride = ceil_div(next.step_bytes, share);
      const Ahead ahead{next.data + (g - first) * stride * steps, stride};
      if (panels == 1) {
        multiply(run.kernels, run.w.family, a[g].data, panel, steps, a[g].height, cols_here, c, ld, add, ahead);
      } else {
        const Rows rows = run.plain_a ? Rows{a[g].data, run.w.a.lane_stride, 1} : Rows{a[g].data, 1, a[g].height};
        run.kernels.wide[a[g].height](rows, panel, b_stride, steps, c, ld, add, ahead);
      }
    }
  }
  // The next panel of the task; after the last, the first a block deeper, or of the next task. Panels that are widened
  // first are all fetched for the block after this.
  struct Next {
    const std::byte* data = nullptr;
    int64_t step_bytes = 0;
  };
  Next next_after(int64_t p, int64_t d, int64_t steps) const {
    const PackedMatrix* packed = run.w.packed_b;
    const bool stays = p + 1 < p1, deeper = d + steps < run.depth();
    if (run.all_b ? stays : !packed) return {b + (p + 1 - p0) * b_stride, kStepBytes};
    const int64_t step = deeper ? d + steps : 0;
    if (run.all_b) {
      const int64_t there = deeper ? p + 1 - (p1 - p0) : p + 1;
      return {run.all_b + (there * run.all_b_depth + step) * kStepBytes, kStepBytes};
    }
    const int64_t there = deeper ? p : std::min(p + p1 - p0, run.panels - 1);
    return {packed->panel(run.w.packed_item, there) + (run.part.begin + step) * packed->step_bytes(),
            packed->step_bytes()};
  }

  struct Group {
    const std::byte* data = nullptr;
    int64_t row = 0, height = 0;
  };

  const Run& run;
  const int64_t g0, g1, p0, p1;
  const int64_t row0, col0, cols;
  const int64_t b_bytes, a_bytes;
  Scratch scratch;
  std::byte* const tile;
  const int64_t ld;
  const std::byte* b = nullptr;  // this block of depth, and bytes from panel to panel
  int64_t b_stride = 0;
  Group a[tuned::kBlockGroups] = {};
};

// Cuts the result into tasks of at most `block` groups by `chunk` panels: nearly equal, as many for every thread. Those
// of the last block are narrower, so that who is done first waits less.
void run_tasks(const Run& run, int64_t g0, int64_t g1, int64_t block, int64_t chunk) {
  const int64_t chunks = ceil_div(run.panels, chunk), count = g1 - g0;
  const int64_t evenly = chunks % pool_threads() == 0 ? 1 : pool_threads();
  const int64_t blocks = std::min(count, ceil_div(ceil_div(count, block), evenly) * evenly);
  const int64_t narrow = run.plain_a ? std::min(chunk, kPanelsWide) : chunk, before = (blocks - 1) * chunks;
  parallel_for(before + ceil_div(run.panels, narrow), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t < before ? t / chunks : blocks - 1, width = t < before ? chunk : narrow;
      const int64_t p = (t < before ? t % chunks : t - before) * width;
      Task(run, g0 + i * count / blocks, g0 + (i + 1) * count / blocks, p, std::min(p + width, run.panels)).execute();
    }
  });
}

// All of A is packed before the tasks, kSharedBytes at a time, if it must be.
void run_sharing_a(Run& run, int64_t block, int64_t chunk) {
  run.plain_a = run.can_be_plain() && chunk % kPanelsWide == 0;
  if (run.plain_a) return run_tasks(run, 0, run.groups.count, block, chunk);
  const int64_t group_bytes = run.depth() * kRowsMax * run.unit;
  const int64_t step = std::min(run.groups.count, std::max(tuned::kSharedBytes / group_bytes, tuned::kBlockGroups));
  Scratch memory(size_t(step * group_bytes));
  run.all_a = memory.as();
  for (int64_t g0 = 0; g0 < run.groups.count; g0 += step) {
    const int64_t g1 = std::min(g0 + step, run.groups.count);
    run.all_a_group = g0;
    parallel_for(g1 - g0, 4, [&](int64_t begin, int64_t end) {
      for (int64_t g = g0 + begin; g < g0 + end; ++g) {
        const int64_t before = run.groups.row(g) - run.groups.row(g0);
        run.fill_a(g, 0, run.depth(), memory.as() + before * run.depth() * run.unit);
      }
    });
    run_tasks(run, g0, g1, std::min(block, g1 - g0), chunk);
  }
}

void pack_all_b(const Run& run, std::byte* to) {
  const PanelSource& source = run.w.b;
  const int64_t panel_bytes = run.depth() * kStepBytes;
  parallel_for(run.panels, tuned::kChunkPanels, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      if (!source.fill_rows) run.fill_b(p, 0, run.depth(), to + p * panel_bytes);
    }
    if (!source.fill_rows) return;
    const int64_t lane = begin * run.width, lanes = std::min(end * run.width, run.w.n) - lane;
    source.fill_rows(source.ctx, lane, lanes, run.part.begin, run.depth(), to + begin * panel_bytes, panel_bytes);
  });
}

// Narrow panels, which every block of rows would widen again.
void widen_all_b(const Run& run, std::byte* to) {
  const PackedMatrix& packed = *run.w.packed_b;
  parallel_for(run.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const std::byte* from = packed.panel(run.w.packed_item, p) + run.part.begin * packed.step_bytes();
      packed.widen(from, run.depth(), to + p * run.depth() * kStepBytes, run.w.simd);
    }
  });
}

void run_part(Run& run) {
  const PackedMatrix* packed = run.w.packed_b;
  const int64_t wanted = pool_threads() * tuned::kTasksPerThread;
  const int64_t blocks = ceil_div(run.groups.count, tuned::kBlockGroups);
  if (packed && packed->is_wide()) {
    run.all_b = packed->panel(run.w.packed_item, 0) + run.part.begin * kStepBytes;
    run.all_b_depth = depth_steps(run.w.family, packed->k());
  }
  if (!packed && (blocks == 1 || run.panels >= 2 * wanted)) {
    return run_sharing_a(run, run.groups.count, run.chunk_of(run.panels / wanted));
  }
  const int64_t b_bytes = run.panels * run.depth() * kStepBytes;
  const bool widens = packed && !packed->is_wide() && blocks > 1 && b_bytes <= tuned::kWidenedBytes;
  Scratch memory(packed && !widens ? 0 : size_t(b_bytes));
  if (!packed || widens) {
    (widens ? widen_all_b : pack_all_b)(run, memory.as());
    run.all_b = memory.as();
    run.all_b_depth = run.depth();
  }
  if (run.panels <= tuned::kChunkPanels || blocks >= wanted) {
    run.plain_a = run.can_be_plain();
    const int64_t block = std::clamp<int64_t>(ceil_div(run.groups.count, wanted), 4, tuned::kBlockGroups);
    return run_tasks(run, 0, run.groups.count, block,
                     run.plain_a ? std::min(run.panels, tuned::kChunkPanels) : run.panels);
  }
  run_sharing_a(run, tuned::kBlockGroups, run.chunk_of(run.panels * blocks / wanted));
}

void run_parts(const Blocked& w) {
  Run run(w);
  const bool direct = is_direct(w.out, w.family), parts = w.depth > tuned::kDepthLong;
  Scratch sums(parts && !direct ? size_t(w.m * w.n * run.unit) : 1);
  if (direct) {
    run.sums = static_cast<std::byte*>(w.out.data);
    run.sums_ld = w.out.row_stride;
  } else if (parts) {
    run.sums = sums.as();
    run.sums_ld = w.n;
  }
  const int64_t step = parts ? tuned::kDepthPart : w.depth;
  for (int64_t d = 0; d < w.depth; d += step) {
    run.part = {w.begin + d, w.begin + std::min(d + step, w.depth), d == 0, d + step >= w.depth};
    run.all_a = run.all_b = nullptr;
    run.plain_a = false;
    run_part(run);
  }
}

template <class T>
void add_up(std::byte* sums, int64_t size, int64_t count) {
  auto* p = reinterpret_cast<T*>(sums);
  for (int64_t i = 1; i < count; ++i) {
    for (int64_t j = 0; j < size; ++j) p[j] += p[i * size + j];
  }
}

// Small results of a long depth: parts of fixed length side by side, added in order.
void run_split(const Blocked& w) {
  const int64_t count = ceil_div(w.depth, tuned::kDepthPart), size = w.m * w.n, bytes = size * row(w.family).unit;
  Scratch memory(size_t(count * bytes));
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Blocked part = w;
      part.begin = w.begin + i * tuned::kDepthPart;
      part.depth = std::min(tuned::kDepthPart, w.depth - i * tuned::kDepthPart);
      part.out = {.data = memory.as() + i * bytes, .dtype = row(w.family).sum, .row_stride = w.n};
      run_parts(part);
    }
  });
  switch (w.family) {
    case Family::floats:
      add_up<float>(memory.as(), size, count);
      break;
    case Family::c64:
      add_up<float>(memory.as(), 2 * size, count);
      break;
    case Family::f64:
      add_up<double>(memory.as(), size, count);
      break;
    case Family::c128:
      add_up<double>(memory.as(), 2 * size, count);
      break;
    case Family::int64:
      add_up<uint64_t>(memory.as(), size, count);
      break;
    case Family::pairs:
    case Family::int32:
      add_up<uint32_t>(memory.as(), size, count);
      break;
  }
  finish_tile(w.out, w.family, memory.as(), w.n, 0, w.m, 0, w.n);
}

void run_empty(const Blocked& w) {
  const int64_t row_bytes = w.n * row(w.family).unit,
                rows = std::clamp<int64_t>((int64_t{1} << 16) / row_bytes, 1, w.m);
  Scratch tile(size_t(rows * row_bytes));
  for (int64_t r = 0; r < w.m; r += rows) {
    std::memset(tile.as(), 0, size_t(rows * row_bytes));
    finish_tile(w.out, w.family, tile.as(), w.n, r, std::min(rows, w.m - r), 0, w.n);
  }
}

}  // namespace

void run_blocked(const Blocked& w) {
  if (w.m <= 0 || w.n <= 0) return;
  if (w.depth <= 0) return run_empty(w);
  static ThreadPool alone(1);
  ThreadPool::Use use(w.m * w.n * w.depth <= tuned::kInlineProducts ? alone : ThreadPool::current());
  if (runs_as_gemv(w)) return run_gemv(w);
  const int64_t tiles = Groups(w.m).count * ceil_div(w.n, panel_width(w.family));
  if (w.depth > tuned::kDepthLong && tiles <= tuned::kSplitTiles) return run_split(w);
  run_parts(w);
}

}  // namespace trine::host

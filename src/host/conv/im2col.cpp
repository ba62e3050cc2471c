// Depth is walked in segments: runs along its innermost dimension, or along two that lie end to end in memory.
#include "host/conv/im2col.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

namespace trine::host {

namespace {

constexpr int64_t kLanesMax = 16;
using Index = std::array<int64_t, kSpaceMax + 1>;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }  // b > 0
int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

Index decode(const Walk::Dims& dims, int count, int64_t index) {
  Index out = {};
  for (size_t i = size_t(count); i-- > 0; index /= dims[i].extent) out[i] = index % dims[i].extent;
  return out;
}

// Moves on by `by` along the innermost dimension, and over into the others.
void advance(const Walk::Dims& dims, int count, Index& index, int64_t by) {
  size_t i = size_t(count) - 1;
  index[i] += by;
  for (; i > 0 && index[i] >= dims[i].extent; --i) {
    index[i - 1] += index[i] / dims[i].extent;
    index[i] %= dims[i].extent;
  }
}

// One dimension of space: which taps of the window a phase of the output meets, and where they lie.
struct Phase {
  int64_t positions = 0, taps = 0;           // counts
  int64_t position0 = 0, position_step = 1;  // in the output
  int64_t tap0 = 0, tap_step = 1;            // in the window
  int64_t x0 = 0, x_per_position = 0, x_per_tap = 0;
};
int64_t phases_of(const Conv::Dim& d) { return d.in_dilation / std::gcd(d.in_dilation, d.stride); }
Phase make_phase(const Conv::Dim& d, int64_t phase) {
  const int64_t holes = d.in_dilation, dilation = d.window_dilation;
  Phase out;
  out.position0 = phase;
  out.position_step = phases_of(d);
  out.positions = d.out > phase ? ceil_div(d.out - phase, out.position_step) : 0;
  out.tap_step = holes / std::gcd(holes, dilation);
  const int64_t first = phase * d.stride - d.pad_low;
  while (out.tap0 < out.tap_step && floor_mod(first + out.tap0 * dilation, holes) != 0) ++out.tap0;
  const bool meets = out.tap0 < out.tap_step && out.tap0 < d.window;
  out.taps = meets ? ceil_div(d.window - out.tap0, out.tap_step) : 0;
  out.x0 = meets ? (first + out.tap0 * dilation) / holes : 0;
  out.x_per_position = out.position_step * d.stride / holes;
  out.x_per_tap = out.tap_step * dilation / holes;
  return out;
}

// Innermost position: the nearest in the input.
void order_positions(Walk& w) {
  auto far = [](const Walk::Dim& d) {
    return d.extent == 1 ? std::numeric_limits<int64_t>::max() : std::abs(d.in_step);
  };
  std::stable_sort(w.positions.begin(), w.positions.begin() + w.dims,
                   [&](auto& a, auto& b) { return far(a) > far(b); });
  int last = -2;
  for (const Walk::Dim& d : w.positions) {
    if (d.extent == 1) continue;
    w.natural &= d.space > last;
    last = d.space;
  }
}

// Innermost depth: what is contiguous in the input or, when positions are, the longest run.
void order_depth(Walk& w) {
  const bool contiguous_positions = w.positions[size_t(w.dims) - 1].in_step == 1;
  auto worth = [&](const Walk::Dim& d) {
    const bool contiguous = std::abs(d.in_step) == 1 && !contiguous_positions;
    return (contiguous ? int64_t{1} << 40 : 0) + d.extent * 2 + (d.space < 0);
  };
  const auto end = w.depth.begin() + w.dims;
  const auto best = std::max_element(w.depth.begin(), end, [&](auto& a, auto& b) { return worth(a) < worth(b); });
  std::rotate(best, best + 1, end);
}

int64_t product(const Walk::Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, [](int64_t n, auto& d) { return n * d.extent; });
}

}  // namespace

int64_t Walk::position_count() const { return product(positions); }
int64_t Walk::depth_count() const { return product(depth); }

int64_t phase_count(const Conv& c) {
  int64_t count = 1;
  for (int s = 0; s < c.rank; ++s) count *= phases_of(c.space[size_t(s)]);
  return count;
}

Walk make_walk(const Conv& c, int64_t group, int64_t phase) {
  Walk w;
  w.dims = c.rank + 1;
  w.in_begin = group * c.input.group_stride;
  w.out_begin = group * c.output.group_stride;
  w.w_begin = group * c.weights.group_stride;
  w.positions[0] = {c.batch, c.input.batch_stride, c.output.batch_stride};
  w.depth[size_t(c.rank)] = {c.in_features, c.input.feature_stride, 0, c.weights.feature_stride};
  for (int s = c.rank - 1; s >= 0; --s) {
    const size_t i = size_t(s);
    const Conv::Dim& d = c.space[i];
    const Phase p = make_phase(d, phase % phases_of(d));
    phase /= phases_of(d);
    const int64_t w_stride = d.reversed ? -d.w_stride : d.w_stride;
    w.positions[i + 1] = {p.positions,     p.x_per_position * d.in_stride, p.position_step * d.out_stride, 0, s,
                          p.x_per_position};
    w.depth[i] = {p.taps, p.x_per_tap * d.in_stride, 0, p.tap_step * w_stride, s, p.x_per_tap};
    w.origin[i] = p.x0;
    w.in_size[i] = d.in;
    w.in_begin += p.x0 * d.in_stride;
    w.out_begin += p.position0 * d.out_stride;
    w.w_begin += p.tap0 * w_stride + (d.reversed ? (d.window - 1) * d.w_stride : 0);
  }
  order_positions(w);
  order_depth(w);
  return w;
}

namespace {

// Indices [lo, hi).
struct Range {
  int64_t lo, hi;
};

// A lane's position: where depth 0 would be read, and per dimension of depth the taps that meet the input. Not set
// before it is used: there are many.
struct Lane {
  int64_t offset;
  std::array<Range, kSpaceMax + 1> taps;
};

// Of a dimension of depth from x on. Few windows reach over an edge, so divisions are rare. Ranges are written part by
// part: a pair that is returned goes through memory, and is read back as one before it is there.
void set_taps(Range& to, const Walk::Dim& d, int64_t x, int64_t size) {
  const int64_t step = d.x_step;
  to.lo = 0;
  to.hi = d.extent;
  if (step == 0) {
    if (x < 0 || x >= size) to.hi = 0;
    return;
  }
  if (x < 0) to.lo = std::min(ceil_div(-x, step), d.extent);
  if (x + (d.extent - 1) * step >= size) to.hi = std::min(ceil_div(std::max<int64_t>(size - x, 0), step), d.extent);
}

struct Lanes {
  Lanes(const Walk& walk, int64_t first, int64_t count_) : count(count_) {
    Index index = decode(walk.positions, walk.dims, first);
    for (int64_t l = 0; l < count; ++l, advance(walk.positions, walk.dims, index, 1)) {
      Lane& lane = all[l];
      Space x = walk.origin;
      lane.offset = 0;
      for (int i = 0; i < walk.dims; ++i) {
        const Walk::Dim& d = walk.positions[size_t(i)];
        lane.offset += index[size_t(i)] * d.in_step;
        if (d.space >= 0) x[size_t(d.space)] += index[size_t(i)] * d.x_step;
      }
      for (size_t i = 0; i < size_t(walk.dims); ++i) {
        const Walk::Dim& d = walk.depth[i];
        if (d.space >= 0) {
          set_taps(lane.taps[i], d, x[size_t(d.space)], walk.in_size[size_t(d.space)]);
        } else {
          lane.taps[i].lo = 0;
          lane.taps[i].hi = d.extent;
        }
        interior &= lane.taps[i].lo == 0 && lane.taps[i].hi == d.extent;  // the whole window lies inside the input
      }
      step = l == 1 ? lane.offset - all[0].offset : step;
      affine &= lane.offset == all[0].offset + l * step;
    }
  }

  int64_t count;
  int64_t step = 0;  // from lane to lane
  bool affine = true, interior = true;
  Lane all[kLanesMax];
};

// A run of depth from `index` on: `count` reads `step` apart from `offset` (of a lane).
struct Segment {
  int64_t count = 0, offset = 0, step = 0;
  Index index = {};
};

// The reads [lo, hi) of a segment that meet the input.
void set_reads(LaneRun& to, const Walk& walk, const Lane& lane, const Segment& s) {
  const size_t last = size_t(walk.dims) - 1;
  bool meets = true;
  for (size_t i = 0; i < last; ++i) meets &= s.index[i] >= lane.taps[i].lo && s.index[i] < lane.taps[i].hi;
  const int64_t lo = std::max<int64_t>(lane.taps[last].lo - s.index[last], 0);
  const int64_t hi = std::min(lane.taps[last].hi - s.index[last], s.count);
  meets &= lo < hi;
  to.lo = meets ? lo : 0;
  to.hi = meets ? hi : 0;
}
bool meets_input(const Walk& walk, const Lane& lane, const Segment& s) {
  LaneRun run;
  set_reads(run, walk, lane, s);
  return run.hi > 0;
}

Segment segment_at(const Walk& walk, const Index& index, int64_t most) {
  const size_t last = size_t(walk.dims) - 1;
  const Walk::Dim& inner = walk.depth[last];
  Segment s{.count = std::min(inner.extent - index[last], most), .step = inner.in_step, .index = index};
  for (size_t i = 0; i < size_t(walk.dims); ++i) s.offset += index[i] * walk.depth[i].in_step;
  return s;
}

// Features that lie end to end from tap to tap make one run over the taps that are left, where no lane leaves the
// input.
void merge_taps(const Walk& walk, const Lanes& lanes, const Index& index, int64_t most, Segment& s) {
  const size_t last = size_t(walk.dims) - 1;
  if (last == 0) return;
  const Walk::Dim& inner = walk.depth[last];
  const Walk::Dim& outer = walk.depth[last - 1];
  const int64_t taps = std::min(outer.extent - index[last - 1], most / inner.extent);
  if (inner.space >= 0 || outer.space < 0 || index[last] != 0 || taps < 2) return;
  if (outer.in_step != inner.extent * inner.in_step) return;
  Segment whole = s, end = s;
  end.index[last - 1] += taps - 1;
  whole.count = taps * inner.extent;
  for (int64_t l = 0; l < lanes.count && !lanes.interior; ++l) {
    if (!meets_input(walk, lanes.all[l], s) || !meets_input(walk, lanes.all[l], end)) return;
  }
  s = whole;
}

}  // namespace

void Im2col::gather(int64_t lane, int64_t count_lanes, int64_t width, int64_t begin, int64_t count, void* to_) const {
  if (count == 0) return;
  const Lanes lanes(walk, lane, count_lanes);
  const int64_t size = bytes(dtype);
  const UnitPack pack = unit_pack(int(size), simd);
  const LanePack pack_lanes = lane_pack(int(size), simd);
  auto* to = static_cast<std::byte*>(to_);
  Index index = decode(walk.depth, walk.dims, begin);
  LaneRun runs[kLanesMax] = {};  // lanes that are not there read nothing
  while (count > 0) {
    Segment s = segment_at(walk, index, count);
    merge_taps(walk, lanes, index, count, s);
    const bool merged = s.count > walk.depth[size_t(walk.dims) - 1].extent;
    bool same = lanes.affine;  // one range of steps for all lanes
    for (int64_t l = 0; l < lanes.count; ++l) {
      runs[l].from = data + (lanes.all[l].offset + s.offset) * size;
      runs[l].lo = 0;
      runs[l].hi = s.count;
      if (!merged && !lanes.interior) set_reads(runs[l], walk, lanes.all[l], s);
      same &= runs[l].lo == runs[0].lo && runs[l].hi == runs[0].hi;
    }
    if (same) {
      const auto [from, lo, hi] = runs[0];
      const int64_t step = width * size;
      std::memset(to, 0, size_t(lo * step));
      pack(static_cast<const std::byte*>(from) + lo * s.step * size, lanes.step, s.step, lanes.count, width, hi - lo,
           to + lo * step);
      std::memset(to + hi * step, 0, size_t((s.count - hi) * step));
    } else {
      pack_lanes(runs, s.step, width, s.count, to);
    }
    advance(walk.depth, walk.dims, index, s.count);
    count -= s.count;
    to += s.count * width * size;
  }
}

void WeightPanels::gather(int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t count, void* to_) const {
  if (count == 0) return;
  const int64_t size = bytes(dtype);
  const UnitPack pack = unit_pack(int(size), simd);
  auto* to = static_cast<std::byte*>(to_);
  Index index = decode(walk.depth, walk.dims, begin);
  while (count > 0) {
    const size_t last = size_t(walk.dims) - 1;
    const Walk::Dim& inner = walk.depth[last];
    const int64_t run = std::min(inner.extent - index[last], count);
    int64_t offset = lane * lane_stride;
    for (size_t i = 0; i < size_t(walk.dims); ++i) offset += index[i] * walk.depth[i].w_step;
    pack(data + offset * size, lane_stride, inner.w_step, lanes, width, run, to);
    advance(walk.depth, walk.dims, index, run);
    count -= run;
    to += run * width * size;
  }
}

}  // namespace trine::host

// Positions are cut into segments along the innermost of their dimensions; a segment's taps are listed once, for groups
// of a few positions each, and then every panel of output features goes through all groups.
#include "host/conv/direct.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/pool.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::convolution;

constexpr int64_t kWidth = panel_width(Family::floats), kHalf = kWidth / 2;
constexpr int64_t kZeros = 1 << 16;
alignas(64) float zeros[kZeros] = {};  // what lies outside the input; not const, so that the file has no room for it

// Null where there are none.
const DirectKernels* direct_kernels(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return &direct_kernels_avx2();
#else
  (void)simd;
#endif
  return nullptr;
}

// Features innermost, whatever lies nearest: a run of them is inside the input or outside it as a whole.
void features_last(Walk& w) {
  const auto end = w.depth.begin() + w.dims;
  const auto features = std::find_if(w.depth.begin(), end, [](const Walk::Dim& d) { return d.space < 0; });
  std::rotate(features, features + 1, end);
}

// A tap of the window, from where depth 0 would be read.
struct Tap {
  Space x = {};
  int64_t offset = 0;
  const float* weights = nullptr;
};

class Direct {
 public:
  Direct(const Conv& c, int64_t group, int64_t phase) : c_(c), walk_(make_walk(c, group, phase)) {
    features_last(walk_);
    const Walk::Dim& features = walk_.depth[size_t(walk_.dims) - 1];
    run_ = {features.extent, features.in_step, features.w_step};
    find_weights();
    find_taps();
    inner_ = walk_.positions[size_t(walk_.dims) - 1];
    input_ = static_cast<const float*>(c.input.data) + walk_.in_begin;
    auto* out = static_cast<std::byte*>(c.output.data);
    if (out) out += walk_.out_begin * bytes(c.output.dtype);
    out_ = {out, c.output.dtype, 0, c.output.feature_stride, c.epilogue, 0, group * c.out_features, &rows_};
    for (size_t i = 0; i < walk_.positions.size(); ++i) {
      rows_.extents[i] = walk_.positions[i].extent;
      rows_.strides[i] = walk_.positions[i].out_step;
    }
    writes_ = out && c.output.dtype == Dtype::f32 && c.output.feature_stride == 1;
  }

  void run() const {
    const int64_t positions = walk_.position_count();
    if (positions == 0 || c_.out_features == 0) return;
    const int64_t segments = (inner_.extent + kSegment - 1) / kSegment, all = positions / inner_.extent * segments;
    const int64_t products = std::max<int64_t>(1, kSegment * walk_.depth_count() * c_.out_features);
    parallel_for(all, std::max<int64_t>(1, tuned::kTaskProducts / products), [&](int64_t begin, int64_t end) {
      Room room(writes_ ? 0 : kSegment * c_.out_features);
      for (int64_t s = begin; s < end; ++s) {
        const int64_t first = s % segments * kSegment, count = std::min(kSegment, inner_.extent - first);
        segment(s / segments, first, count, room);
      }
    });
  }

 private:
  static constexpr int64_t kSegment = 8 * kRowsMax;  // positions

  struct Room {
    explicit Room(int64_t sums) : tile(size_t(sums) * sizeof(float)) {}
    std::vector<const Tap*> met = {};
    std::vector<DirectTap> taps = {};  // of all groups, one after the other
    std::array<size_t, kSegment + 1> ends = {};
    Scratch tile;
  };

  // As they lie, where output features do side by side; else as panels.
  void find_weights() {
    const auto* own = static_cast<const float*>(c_.weights.data) + walk_.w_begin;
    const int64_t n = c_.out_features, depth = walk_.depth_count(), panels = (n + kWidth - 1) / kWidth;
    if (c_.weights.batch_stride == 1 && n % kHalf == 0) {
      weights_ = own;
      panel_ = kWidth;
      return;
    }
    packed_ = Memory(size_t(panels * depth * kWidth) * sizeof(float));
    if (depth > 0 && !packed_.data()) throw std::bad_alloc();
    const WeightPanels source{
        walk_,  reinterpret_cast<const std::byte*>(own), c_.weights.batch_stride, Dtype::f32, Family::floats, depth,
        c_.simd};
    auto* to = reinterpret_cast<float*>(packed_.data());
    for (int64_t p = 0; p < panels; ++p)
      source.gather(p * kWidth, std::min(kWidth, n - p * kWidth), kWidth, 0, depth, to + p * depth * kWidth);
    weights_ = to;
    panel_ = depth * kWidth;
    run_.weights_step = kWidth;
  }

  void find_taps() {
    const size_t spatial = size_t(walk_.dims) - 1;
    int64_t count = 1;
    for (size_t d = 0; d < spatial; ++d) count *= walk_.depth[d].extent;
    taps_.resize(size_t(count));
    for (int64_t t = 0; t < count; ++t) {
      Tap& tap = taps_[size_t(t)];
      int64_t rest = t, weights = 0;
      for (size_t d = spatial; d-- > 0;) {
        const Walk::Dim& dim = walk_.depth[d];
        const int64_t i = rest % dim.extent;
        rest /= dim.extent;
        tap.x[size_t(dim.space)] += i * dim.x_step;
        tap.offset += i * dim.in_step;
        weights += i * dim.w_step;
      }
      tap.weights = weights_ + (packed_.data() ? t * run_.features * kWidth : weights);
    }
  }

  // Positions [first, first + count) of the innermost dimension, at one index of the others.
  void segment(int64_t outer, int64_t first, int64_t count, Room& room) const {
    Space x = walk_.origin;
    int64_t from = first * inner_.in_step, to = first * inner_.out_step, rest = outer;
    for (size_t i = size_t(walk_.dims) - 1; i-- > 0;) {
      const Walk::Dim& d = walk_.positions[i];
      const int64_t index = rest % d.extent;
      rest /= d.extent;
      from += index * d.in_step;
      to += index * d.out_step;
      if (d.space >= 0) x[size_t(d.space)] += index * d.x_step;
    }
    if (inner_.space >= 0) x[size_t(inner_.space)] += first * inner_.x_step;
    meet(x, room);
    room.taps.clear();
    const Groups groups(count);
    for (int64_t g = 0; g < groups.count; ++g) {
      list(x, input_ + from, groups.row(g), groups.row(g + 1), room);
      room.ends[size_t(g) + 1] = room.taps.size();
    }
    float* tile = writes_ ? reinterpret_cast<float*>(out_.data) + to : room.tile.as<float>();
    const int64_t ld = writes_ ? inner_.out_step : c_.out_features, row = outer * inner_.extent + first;
    for (int64_t p = 0; p * kWidth < c_.out_features; ++p) panel(p, groups, room, tile, ld);
    if (!writes_) return finish_tile(out_, Family::floats, room.tile.as(), ld, row, count, 0, c_.out_features);
    if (out_.epilogue.run) out_.epilogue.run(out_.epilogue.ctx, tile, row, count, out_.col_base, c_.out_features, ld);
  }

  // The taps that are inside the input in every dimension but the one along which positions move.
  void meet(const Space& x, Room& room) const {
    room.met.clear();
    for (const Tap& tap : taps_) {
      bool inside = true;
      for (int s = 0; s < c_.rank; ++s) {
        const int64_t at = x[size_t(s)] + tap.x[size_t(s)];
        inside &= s == inner_.space || (at >= 0 && at < walk_.in_size[size_t(s)]);
      }
      if (inside) room.met.push_back(&tap);
    }
  }

  void list(const Space& x, const float* from, int64_t begin, int64_t end, Room& room) const {
    const int64_t size = inner_.space < 0 ? 1 : walk_.in_size[size_t(inner_.space)];
    for (const Tap* tap : room.met) {
      const int64_t x0 = inner_.space < 0 ? 0 : x[size_t(inner_.space)] + tap->x[size_t(inner_.space)];
      const int64_t low = x0 + begin * inner_.x_step, high = x0 + (end - 1) * inner_.x_step;
      if (high < 0 || low >= size) continue;
      DirectTap& to = room.taps.emplace_back();
      to.weights = tap->weights;
      const float* at = from + tap->offset + begin * inner_.in_step;
      for (int64_t r = 0; r < end - begin; ++r, at += inner_.in_step) {
        const int64_t there = low + r * inner_.x_step;
        to.rows[size_t(r)] = there >= 0 && there < size ? at : zeros;
      }
    }
  }

  void panel(int64_t p, const Groups& groups, const Room& room, float* tile, int64_t ld) const {
    const int64_t cols = std::min(kWidth, c_.out_features - p * kWidth), wide = cols > kHalf ? kWidth : kHalf;
    const DirectKernels& kernels = *direct_kernels(c_.simd);
    DirectRun run = run_;
    run.shift = p * panel_;
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t row = groups.row(g), rows = groups.row(g + 1) - row;
      const DirectKernel kernel = (wide == kWidth ? kernels.whole : kernels.half)[size_t(rows)];
      const std::span<const DirectTap> taps(room.taps.data() + room.ends[size_t(g)],
                                            room.ends[size_t(g) + 1] - room.ends[size_t(g)]);
      alignas(64) float edge[kRowsMax * kWidth];
      float* to = tile + row * ld + p * kWidth;
      blocks(taps, run, kernel, cols == wide ? to : edge, cols == wide ? ld : kWidth);
      for (int64_t r = 0; cols != wide && r < rows; ++r)
        std::memcpy(to + r * ld, edge + r * kWidth, size_t(cols) * sizeof(float));
    }
  }
  // Sums go through memory between blocks of depth, as in every product.
  static void blocks(std::span<const DirectTap> taps, const DirectRun& run, DirectKernel kernel, float* to,
                     int64_t ld) {
    const size_t most = size_t(std::max<int64_t>(1, kDepthBlock / std::max<int64_t>(1, run.features)));
    size_t at = 0;
    do {
      const size_t count = std::min(most, taps.size() - at);
      kernel(taps.data() + at, int64_t(count), run, to, ld, at > 0);
      at += count;
    } while (at < taps.size());
  }

  const Conv& c_;
  Walk walk_;
  Walk::Dim inner_ = {};  // of positions
  DirectRun run_ = {};
  Memory packed_ = {};
  const float* weights_ = nullptr;
  int64_t panel_ = 0;  // elements from panel to panel
  std::vector<Tap> taps_ = {};
  const float* input_ = nullptr;
  RowMap rows_ = {};
  TileOut out_ = {};
  bool writes_ = false;  // sums straight into the result
};

}  // namespace

bool runs_direct(const Conv& c, Family family) {
  if (family != Family::floats || !direct_kernels(c.simd) || c.packed_weights || c.rank < 1) return false;
  if (c.input.dtype != Dtype::f32 || c.weights.dtype != Dtype::f32) return false;
  const int64_t reach = std::abs(c.input.feature_stride) * c.in_features;  // of a run
  return c.out_features <= tuned::kDirectFeatures && c.in_features > 0 && c.in_features <= kDepthBlock &&
         c.input.feature_stride >= 0 && reach <= kZeros;
}

void run_direct(const Conv& c, int64_t group, int64_t phase) { Direct(c, group, phase).run(); }

}  // namespace trine::host

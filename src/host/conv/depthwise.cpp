// Features are the vector direction: inputs that have them elsewhere, or are not f32, are rearranged first.
#include "host/conv/depthwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/pool.h"
#include "host/thresholds.h"
#include "host/values.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::convolution;

void tap_sum(const float* const* in, const float* const* w, int64_t taps, int64_t n, float* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    float sum[kBlock] = {};
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t j = 0; j < count; ++j) sum[j] += in[t][i + j] * w[t][i + j];
    }
    std::memcpy(to + i, sum, size_t(count) * sizeof(float));
  }
}

TapSum tap_sum_of(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return tap_sum_avx2();
#else
  (void)simd;
#endif
  return tap_sum;
}

// n values `stride` apart as f32, side by side.
void widen_strided(const std::byte* from, Dtype dtype, int64_t stride, float* to, int64_t n, Simd simd) {
  if (stride == 1) return widen_values(dtype, from, to, size_t(n), simd);
  constexpr int64_t kBlock = 64;
  alignas(64) std::byte staged[kBlock * 4];
  const int64_t size = bytes(dtype);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    unit_pack(int(size), simd)(from + i * stride * size, 0, stride, 1, 1, count, staged);
    widen_values(dtype, staged, to + i, size_t(count), simd);
  }
}

int64_t product(const Conv& c, int64_t Conv::Dim::* size) {
  int64_t out = 1;
  for (int s = 0; s < c.rank; ++s) out *= c.space[size_t(s)].*size;
  return out;
}

// Index of each dimension of space from a count through all, the last fastest.
using Index = std::array<int64_t, kSpaceMax>;
Index decode(const Conv& c, int64_t Conv::Dim::* size, int64_t index) {
  Index out = {};
  for (size_t s = size_t(c.rank); s-- > 0; index /= c.space[s].*size) out[s] = index % (c.space[s].*size);
  return out;
}

// The input as f32 with features (one a group) side by side: itself, or a copy.
struct Image {
  explicit Image(const Conv& c)
      : memory(is_plain(c) ? 1 : size_t(c.batch * product(c, &Conv::Dim::in) * c.groups) * 4) {
    if (is_plain(c)) {
      data = static_cast<const float*>(c.input.data);
      batch_stride = c.input.batch_stride;
      for (size_t s = 0; s < size_t(c.rank); ++s) strides[s] = c.space[s].in_stride;
      return;
    }
    const int64_t positions = product(c, &Conv::Dim::in);
    data = memory.as<float>();
    batch_stride = positions * c.groups;
    int64_t stride = c.groups;
    for (size_t s = size_t(c.rank); s-- > 0; stride *= c.space[s].in) strides[s] = stride;
    parallel_for(c.batch * positions, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t offset = i / positions * c.input.batch_stride;
        const Index x = decode(c, &Conv::Dim::in, i % positions);
        for (size_t s = 0; s < size_t(c.rank); ++s) offset += x[s] * c.space[s].in_stride;
        const auto* from = static_cast<const std::byte*>(c.input.data) + offset * bytes(c.input.dtype);
        widen_strided(from, c.input.dtype, c.input.group_stride, memory.as<float>() + i * c.groups, c.groups, c.simd);
      }
    });
  }
  static bool is_plain(const Conv& c) { return c.input.dtype == Dtype::f32 && c.input.group_stride == 1; }

  Scratch memory;
  const float* data = nullptr;
  int64_t batch_stride = 0;
  Index strides = {};
};

// Where a tap reads, from where the first would without padding.
struct Tap {
  Index x = {};
  int64_t offset = 0;
};

struct Depthwise {
  explicit Depthwise(const Conv& conv)
      : c(conv),
        sum(tap_sum_of(c.simd)),
        image(c),
        taps(product(c, &Conv::Dim::window)),
        weights(size_t(taps * c.groups * 4)) {
    for (int64_t t = 0; t < taps; ++t) {
      int64_t offset = 0;
      const Index k = decode(c, &Conv::Dim::window, t);
      Tap& tap = all_taps.emplace_back();
      for (size_t s = 0; s < size_t(c.rank); ++s) {
        tap.x[s] = k[s] * c.space[s].window_dilation - c.space[s].pad_low;
        tap.offset += tap.x[s] * image.strides[s];
        offset += (c.space[s].reversed ? c.space[s].window - 1 - k[s] : k[s]) * c.space[s].w_stride;
      }
      const auto* from = static_cast<const std::byte*>(c.weights.data) + offset * bytes(c.weights.dtype);
      widen_strided(from, c.weights.dtype, c.weights.group_stride, weights.as<float>() + t * c.groups, c.groups,
                    c.simd);
    }
    rows.extents[0] = c.batch;
    rows.strides[0] = c.output.batch_stride;
    for (size_t s = 0; s < size_t(c.rank); ++s) {
      rows.extents[s + 1] = c.space[s].out;
      rows.strides[s + 1] = c.space[s].out_stride;
    }
    out = {c.output.data, c.output.dtype, 0, c.output.group_stride, c.epilogue};
    if (auto step = rows.step()) {
      out.row_stride = *step;
    } else {
      out.rows = &rows;
    }
  }

  // Rows [row0, row0 + count) of the output: (batch, space) in order.
  void run(int64_t row0, int64_t count, float* own) const {
    const int64_t positions = product(c, &Conv::Dim::out);
    const bool direct = is_direct(out, Family::floats);
    float* tile = direct ? static_cast<float*>(out.data) + row0 * out.row_stride : own;
    const int64_t ld = direct ? out.row_stride : c.groups;
    const float *in[tuned::kDepthwiseTapsMax], *w[tuned::kDepthwiseTapsMax];
    for (int64_t r = 0; r < count; ++r) {
      const Index y = decode(c, &Conv::Dim::out, (row0 + r) % positions);
      const float* base = image.data + (row0 + r) / positions * image.batch_stride;
      for (size_t s = 0; s < size_t(c.rank); ++s) base += y[s] * c.space[s].stride * image.strides[s];
      int64_t met = 0;
      for (int64_t t = 0; t < taps; ++t) {
        const Tap& tap = all_taps[size_t(t)];
        bool inside = true;
        for (size_t s = 0; s < size_t(c.rank); ++s) {
          const int64_t x = y[s] * c.space[s].stride + tap.x[s];
          inside &= x >= 0 && x < c.space[s].in;
        }
        in[met] = base + tap.offset;
        w[met] = weights.as<float>() + t * c.groups;
        met += inside;
      }
      sum(in, w, met, c.groups, tile + r * ld);
    }
    finish_tile(out, Family::floats, reinterpret_cast<std::byte*>(tile), ld, row0, count, 0, c.groups);
  }

  const Conv& c;
  const TapSum sum;
  const Image image;
  const int64_t taps;
  const Scratch weights;  // [tap][feature]
  std::vector<Tap> all_taps = {};
  RowMap rows = {};
  TileOut out = {};
};

}  // namespace

bool runs_depthwise(const Conv& c, Family family) {
  bool holes = false;
  for (int s = 0; s < c.rank; ++s) holes |= c.space[size_t(s)].in_dilation > 1;
  const int64_t taps = product(c, &Conv::Dim::window);
  return family == Family::floats && c.in_features == 1 && c.out_features == 1 && c.groups > 1 && !holes && taps > 0 &&
         taps <= tuned::kDepthwiseTapsMax && !c.packed_weights;
}

void run_depthwise(const Conv& c) {
  const Depthwise d(c);
  constexpr int64_t kTileRows = 32;
  parallel_for(c.batch * product(c, &Conv::Dim::out), kTileRows, [&](int64_t begin, int64_t end) {
    Scratch own(size_t(kTileRows * c.groups * 4));
    for (int64_t r = begin; r < end; r += kTileRows) d.run(r, std::min(kTileRows, end - r), own.as<float>());
  });
}

}  // namespace trine::host

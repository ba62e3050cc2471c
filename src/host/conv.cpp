// The window of each row is packed as the multiply asks for it; nothing of the size of the unfolded input is stored.
#include "host/conv.h"

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "host/blocked.h"
#include "host/values.h"

namespace trine::host {

using arch::ConvStep;

namespace {

// Index along one spatial dim of the input for place `out` and window element `k`; -1 where there is none.
int64_t input_index(const ConvStep::Spatial& s, int64_t out, int64_t k) {
  int64_t at = out * s.step - s.low + k * s.kernel_dilation;
  if (at < 0) return -1;
  if (s.in_dilation > 1) {
    if (at % s.in_dilation) return -1;
    at /= s.in_dilation;
  }
  return at < s.in ? at : -1;
}

// One window element: an index per spatial dim, and where it lies in w.
struct Tap {
  std::vector<int64_t> k = {};
  int64_t w = 0;
};

std::vector<Tap> taps_of(const ConvStep& c) {
  std::vector<Tap> taps = {{}};
  for (const ConvStep::Spatial& s : c.spatial) {
    std::vector<Tap> next;
    for (const Tap& tap : taps) {
      for (int64_t k = 0; k < s.kernel; ++k) {
        Tap t = tap;
        t.k.push_back(k);
        t.w += (s.reversed ? s.kernel - 1 - k : k) * s.w;
        next.push_back(std::move(t));
      }
    }
    taps = std::move(next);
  }
  return taps;
}

// Rows of one multiply: places of the result, counted over spatial dims and, where it lies evenly, the batch.
struct Rows {
  int64_t count = 1, stride = 1;  // of the result
  bool has_batch = false;
};

struct Windows {
  const ConvStep& c;
  const std::byte* x = nullptr;  // of this group, and of this item where rows do not count the batch
  Dtype dtype = Dtype::f32;
  const std::vector<Tap>& taps;
  Simd simd = simd_best();

  // Byte offset of the window element at a row, or -1 where it is padding. `row` counts places, batch first.
  int64_t offset(int64_t row, const Tap& tap) const {
    int64_t at = 0;
    for (size_t d = c.spatial.size(); d-- > 0;) {
      const ConvStep::Spatial& s = c.spatial[d];
      const int64_t index = input_index(s, row % s.out, tap.k[d]);
      if (index < 0) return -1;
      at += index * s.x;
      row /= s.out;
    }
    return (at + row * c.x_batch) * bytes(dtype);
  }
};

// Are the rows neighbours in the last spatial dim, all inside the input? Then one stride walks them.
bool is_even(const Windows& w, int64_t row, int64_t rows, const Tap& tap) {
  if (w.c.spatial.empty()) return false;
  const ConvStep::Spatial& s = w.c.spatial.back();
  const int64_t first = row % s.out, last = first + rows - 1;
  if (s.in_dilation != 1 || last >= s.out) return false;
  const int64_t k = tap.k.back() * s.kernel_dilation - s.low;
  return first * s.step + k >= 0 && last * s.step + k < s.in;
}

// `depth` channels of one tap for up to kRowsMax rows, to[d][lane].
void fill_tap(const Windows& w, int64_t row, int64_t rows, int64_t width, const Tap& tap, int64_t channel,
              int64_t depth, float* to) {
  const int64_t size = bytes(w.dtype);
  const bool is_f32 = w.dtype == Dtype::f32;
  if (is_f32 && is_even(w, row, rows, tap)) {
    const int64_t at = w.offset(row, tap);
    if (at >= 0) {
      const ConvStep::Spatial& s = w.c.spatial.back();
      unit_pack(4, w.simd)(w.x + at + channel * w.c.x_channel * 4, s.step * s.x, w.c.x_channel, rows, width, depth, to);
      return;
    }
  }
  if (width > rows || rows == 0) std::fill_n(to, depth * width, 0.0f);
  for (int64_t lane = 0; lane < rows; ++lane) {
    const int64_t at = w.offset(row + lane, tap);
    if (at < 0) {
      for (int64_t d = 0; d < depth; ++d) to[d * width + lane] = 0;
      continue;
    }
    const std::byte* from = w.x + at + channel * w.c.x_channel * size;
    for (int64_t d = 0; d < depth; ++d) {
      float* at_to = to + d * width + lane;
      if (is_f32)
        std::memcpy(at_to, from + d * w.c.x_channel * 4, 4);
      else
        widen_values(w.dtype, from + d * w.c.x_channel * size, at_to, 1, w.simd);
    }
  }
}

void fill_windows(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  const Windows& w = *static_cast<const Windows*>(ctx);
  auto* out = static_cast<float*>(to);
  const int64_t channels = w.c.in_channels;
  while (depth > 0) {
    const int64_t tap = begin / channels, channel = begin % channels, count = std::min(depth, channels - channel);
    fill_tap(w, lane, lanes, width, w.taps[size_t(tap)], channel, count, out);
    out += count * width;
    begin += count;
    depth -= count;
  }
}

struct Weights {
  const ConvStep& c;
  const std::byte* w = nullptr;  // of this group
  Dtype dtype = Dtype::f32;
  const std::vector<Tap>& taps;
  Simd simd = simd_best();
};

void fill_weights(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth, void* to) {
  const Weights& w = *static_cast<const Weights*>(ctx);
  auto* out = static_cast<float*>(to);
  const int64_t size = bytes(w.dtype);
  for (int64_t d = begin; d < begin + depth; ++d, out += width) {
    const Tap& tap = w.taps[size_t(d / w.c.in_channels)];
    const std::byte* from = w.w + (tap.w + d % w.c.in_channels * w.c.w_in + lane * w.c.w_out) * size;
    if (w.c.w_out == 1) {
      widen_values(w.dtype, from, out, size_t(lanes), w.simd);
    } else {
      for (int64_t j = 0; j < lanes; ++j) widen_values(w.dtype, from + j * w.c.w_out * size, out + j, 1, w.simd);
    }
    std::fill(out + lanes, out + width, 0.0f);
  }
}

// Places of the result that lie evenly are the rows of one multiply; the batch is among them if it does too.
Rows rows_of(const ConvStep& c) {
  Rows rows;
  for (size_t d = c.spatial.size(); d-- > 0;) {
    const ConvStep::Spatial& s = c.spatial[d];
    if (d + 1 == c.spatial.size()) rows.stride = s.y;
    if (s.y != rows.stride * rows.count && s.out != 1) return {0, 0, false};
    rows.count *= s.out;
  }
  if (c.spatial.empty()) rows.stride = c.y_batch;
  rows.has_batch = c.batch == 1 || c.y_batch == rows.stride * rows.count;
  if (rows.has_batch) rows.count *= c.batch;
  return rows;
}

void run_item(const ConvStep& c, const Rows& rows, const std::vector<Tap>& taps, std::span<const TensorView> in,
              const TensorView& out, int64_t group, int64_t item) {
  const int64_t size = bytes(in[0].dtype);
  const Windows windows{c, in[0].as<std::byte>() + (c.x_offset + group * c.x_group + item * c.x_batch) * size,
                        in[0].dtype, taps};
  const Weights weights{c, in[1].as<std::byte>() + (c.w_offset + group * c.w_group) * size, in[1].dtype, taps};
  Blocked b{.m = rows.count,
            .n = c.out_channels,
            .depth = int64_t(taps.size()) * c.in_channels,
            .a = {fill_windows, &windows},
            .b = {fill_weights, &weights}};
  b.out = {out.as<std::byte>() + (group * c.y_group + item * c.y_batch) * bytes(out.dtype), out.dtype, rows.stride,
           c.y_channel};
  run_blocked(b);
}

}  // namespace

Result<void> run_conv(const ConvStep& c, std::span<const TensorView> in, const TensorView& out) {
  if (out.elements() == 0) return {};
  const Rows rows = rows_of(c);
  if (rows.count == 0) return fail(Code::internal, "a convolution's result does not lie evenly");
  const std::vector<Tap> taps = taps_of(c);
  const int64_t items = rows.has_batch ? 1 : c.batch, all = c.groups * items;
  auto one = [&](int64_t i) { run_item(c, rows, taps, in, out, i / items, i % items); };
  if (c.groups >= 8) {
    parallel_for(all, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i);
    });
  } else {
    for (int64_t i = 0; i < all; ++i) one(i);
  }
  return {};
}

}  // namespace trine::host

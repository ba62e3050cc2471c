// What attention does to rows of scores and values, as templates over a build B (see tile_lanes.h).
// Sums run in 8 lanes, added at the end in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "host/attention_kernels.h"
#include "host/tile_lanes.h"

namespace trine::host {

template <class B>
struct AttentionRows {
  static constexpr int64_t kLanes = 8;
  using Math = TileMath<PlainLanes<B>>;

  static float add_up(const float* lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }

  static float most(const float* s, int64_t n) {
    float lanes[kLanes];
    for (float& x : lanes) x = -std::numeric_limits<float>::infinity();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = s[i + j] > lanes[j] ? s[i + j] : lanes[j];
    }
    for (int64_t j = 0; i + j < n; ++j) lanes[j] = s[i + j] > lanes[j] ? s[i + j] : lanes[j];
    float out = lanes[0];
    for (float x : lanes) out = x > out ? x : out;
    return out;
  }

  static float exps(float* s, int64_t n, float from) {
    for (int64_t i = 0; i < n; ++i) s[i] = Math::exp(s[i] - from);
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += s[i + j];
    }
    for (int64_t j = 0; i + j < n; ++j) lanes[j] += s[i + j];
    return add_up(lanes);
  }

  static float dot(const float* a, const float* b, int64_t n) {
    float lanes[2 * kLanes] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      for (int64_t j = 0; j < 2 * kLanes; ++j) lanes[j] = PlainLanes<B>::fma(a[i + j], b[i + j], lanes[j]);
    }
    for (int64_t j = 0; i + j < n; ++j) lanes[j] = PlainLanes<B>::fma(a[i + j], b[i + j], lanes[j]);
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += lanes[j + kLanes];
    return add_up(lanes);
  }

  static void add_scaled(float* to, const float* x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = PlainLanes<B>::fma(x[i], scale, to[i]);
  }

  static void multiply(float* x, float scale, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  }

  static constexpr AttentionKernels kTable = {most, exps, dot, add_scaled, multiply};
};

}  // namespace trine::host

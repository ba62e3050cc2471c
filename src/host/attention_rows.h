// The inner loops of attention as templates over a build B (see tile_lanes.h); loops over 16 queries become vector
// code. Invariant: sums run in a fixed order.
#pragma once

#include <cstdint>

#include "host/attention_kernels.h"
#include "host/tile_lanes.h"

namespace trine::host {

template <class B>
struct AttentionRows {
  static constexpr int64_t kWide = 16;
  using Lanes = PlainLanes<B>;

  static void most(const float* s, int64_t n, float* top) {
    float t[kWide];
    for (int64_t j = 0; j < kWide; ++j) t[j] = top[j];
    for (int64_t i = 0; i < n; ++i, s += kWide) {
      for (int64_t j = 0; j < kWide; ++j) t[j] = s[j] > t[j] ? s[j] : t[j];
    }
    for (int64_t j = 0; j < kWide; ++j) top[j] = t[j];
  }

  static void exps(float* s, int64_t n, const float* top, float* total) {
    float t[kWide] = {};
    for (int64_t i = 0; i < n; ++i, s += kWide) {
      for (int64_t j = 0; j < kWide; ++j) {
        s[j] = TileMath<Lanes>::exp(s[j] - top[j]);
        t[j] += s[j];
      }
    }
    for (int64_t j = 0; j < kWide; ++j) total[j] += t[j];
  }

  static void scale(float* x, int64_t n, const float* by) {
    for (int64_t i = 0; i < n; ++i, x += kWide) {
      for (int64_t j = 0; j < kWide; ++j) x[j] *= by[j];
    }
  }

  static float dot(const float* a, const float* b, int64_t n) {
    float t[kWide] = {};
    int64_t i = 0;
    for (; i + kWide <= n; i += kWide) {
      for (int64_t j = 0; j < kWide; ++j) t[j] = Lanes::fma(a[i + j], b[i + j], t[j]);
    }
    for (int64_t j = 0; i + j < n; ++j) t[j] = Lanes::fma(a[i + j], b[i + j], t[j]);
    for (int64_t half = kWide / 2; half > 0; half /= 2) {
      for (int64_t j = 0; j < half; ++j) t[j] += t[j + half];
    }
    return t[0];
  }

  static void add_scaled(float* to, const float* x, float by, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = Lanes::fma(x[i], by, to[i]);
  }

  static constexpr AttentionKernels kTable = {most, exps, scale, dot, add_scaled};
};

}  // namespace trine::host

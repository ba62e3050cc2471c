// The inner loops of attention as templates over a build B (see loops/lanes.h), which has vectors V of 8; loops over 16
// queries become vector code by themselves. Invariant: sums run in a fixed order.
#pragma once

#include <cstdint>

#include "host/attention/kernels.h"
#include "host/loops/lanes.h"

namespace trine::host {

template <class B>
struct AttentionRows {
  static constexpr int64_t kWide = 16, kLanes = 8;
  static constexpr int64_t kRowsAhead = 16;  // keys of one head lie apart, where no hardware fetches them ahead
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
        s[j] = LaneMath<Lanes>::exp(s[j] - top[j]);
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

  static void dots(const float* q, const float* k, int64_t stride, int64_t n, int64_t dim, float* out) {
    constexpr int64_t kKeys = 8;
    int64_t j = 0;
    for (; j + kKeys <= n; j += kKeys, k += kKeys * stride) dots_of<kKeys>(q, k, stride, dim, out + j);
    for (; j < n; ++j, k += stride) dots_of<1>(q, k, stride, dim, out + j);
  }
  // N rows at a time, a chain of sums each; rows that come as far behind are fetched ahead.
  template <int N>
  static void dots_of(const float* q, const float* k, int64_t stride, int64_t dim, float* out) {
    typename B::V acc[N];
    for (int r = 0; r < N; ++r) acc[r] = B::splat(0);
    int64_t d = 0;
    for (; d + kLanes <= dim; d += kLanes) {
      const auto x = B::load(q + d);
      for (int r = 0; r < N; ++r) {
        if (d % kWide == 0) __builtin_prefetch(k + (r + kRowsAhead) * stride + d, 0, 2);
        acc[r] = B::fma(x, B::load(k + r * stride + d), acc[r]);
      }
    }
    for (int r = 0; r < N; ++r) {
      float t = B::sum(acc[r]);
      for (int64_t e = d; e < dim; ++e) t = Lanes::fma(q[e], k[r * stride + e], t);
      out[r] = t;
    }
  }

  static void weigh(const float* p, const float* v, int64_t stride, int64_t n, int64_t dim, float* sums) {
    int64_t d = 0;
    for (; d + 8 * kLanes <= dim; d += 8 * kLanes) weigh_of<8>(p, v + d, stride, n, sums + d);
    for (; d + kLanes <= dim; d += kLanes) weigh_of<1>(p, v + d, stride, n, sums + d);
    for (; d < dim; ++d) {
      for (int64_t j = 0; j < n; ++j) sums[d] = Lanes::fma(p[j], v[j * stride + d], sums[d]);
    }
  }
  template <int N>
  static void weigh_of(const float* p, const float* v, int64_t stride, int64_t n, float* sums) {
    typename B::V acc[N];
    for (int i = 0; i < N; ++i) acc[i] = B::load(sums + i * kLanes);
    for (int64_t j = 0; j < n; ++j, v += stride) {
      const auto x = B::splat(p[j]);
      for (int i = 0; i < N; ++i) {
        if (i % 2 == 0) __builtin_prefetch(v + kRowsAhead * stride + i * kLanes, 0, 2);
        acc[i] = B::fma(x, B::load(v + i * kLanes), acc[i]);
      }
    }
    for (int i = 0; i < N; ++i) B::store(acc[i], sums + i * kLanes);
  }

  static void add_scaled(float* to, const float* x, float by, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = Lanes::fma(x[i], by, to[i]);
  }

  static constexpr AttentionKernels kTable = {most, exps, scale, dots, weigh, add_scaled};
};

}  // namespace trine::host

// A row of the output is a sum of rows of the input, one for each tap: the window's positions and the input's features.
// Where the window reaches over a row's ends, taps are cut to what they reach.
#include "host/conv/stencil.h"

#include <algorithm>
#include <vector>

#include "base/pool.h"
#include "host/thresholds.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::convolution;

void weighed_sum(const float* const* in, const float* w, int64_t taps, int64_t n, float* to) {
  std::fill_n(to, n, 0.0f);
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t i = 0; i < n; ++i) to[i] += in[t][i] * w[t];
}

WeighedSum weighed_sum_of(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return weighed_sum_avx2();
#else
  (void)simd;
#endif
  return weighed_sum;
}

using Index = std::array<int64_t, kSpaceMax>;

Index decode(const Conv& c, int64_t Conv::Dim::* size, int dims, int64_t index) {
  Index out = {};
  for (size_t s = size_t(dims); s-- > 0; index /= c.space[s].*size) out[s] = index % (c.space[s].*size);
  return out;
}

int64_t product(const Conv& c, int64_t Conv::Dim::* size, int dims) {
  int64_t out = 1;
  for (int s = 0; s < dims; ++s) out *= c.space[size_t(s)].*size;
  return out;
}

struct Tap {
  Index x = {};        // where it reads for position 0
  int64_t offset = 0;  // of that position
  float weight = 0;
};

struct Stencil {
  explicit Stencil(const Conv& conv) : c(conv), last(c.space[size_t(c.rank - 1)]), sum(weighed_sum_of(c.simd)) {
    const int64_t window = product(c, &Conv::Dim::window, c.rank);
    for (int64_t f = 0; f < c.in_features; ++f) {
      for (int64_t t = 0; t < window; ++t) {
        Tap tap{.offset = f * c.input.feature_stride};
        int64_t at = f * c.weights.feature_stride;
        const Index k = decode(c, &Conv::Dim::window, c.rank, t);
        for (size_t s = 0; s < size_t(c.rank); ++s) {
          const Conv::Dim& d = c.space[s];
          tap.x[s] = k[s] * d.window_dilation - d.pad_low;
          tap.offset += tap.x[s] * d.in_stride;
          at += (d.reversed ? d.window - 1 - k[s] : k[s]) * d.w_stride;
        }
        tap.weight = static_cast<const float*>(c.weights.data)[at];
        taps.push_back(tap);
      }
    }
    for (const Tap& t : taps) {
      const int64_t x = t.x[size_t(c.rank - 1)];
      inner_begin = std::max(inner_begin, -x);
      inner_end = std::min(inner_end, last.in - x);
    }
    inner_begin = std::min(inner_begin, last.out);
    inner_end = std::clamp(inner_end, inner_begin, last.out);
  }

  // Row `row` of all: (batch, space but the last).
  void run(int64_t row, std::vector<const float*>& in, std::vector<float>& w) const {
    const int outer = c.rank - 1;
    const int64_t rows = product(c, &Conv::Dim::out, outer);
    const Index y = decode(c, &Conv::Dim::out, outer, row % rows);
    const float* base = static_cast<const float*>(c.input.data) + row / rows * c.input.batch_stride;
    float* to = static_cast<float*>(c.output.data) + row / rows * c.output.batch_stride;
    for (size_t s = 0; s < size_t(outer); ++s) {
      base += y[s] * c.space[s].stride * c.space[s].in_stride;
      to += y[s] * c.space[s].out_stride;
    }
    std::vector<const Tap*> met;
    in.clear(), w.clear();
    for (const Tap& t : taps) {
      bool inside = true;
      for (size_t s = 0; s < size_t(outer); ++s) {
        const int64_t x = y[s] * c.space[s].stride + t.x[s];
        inside &= x >= 0 && x < c.space[s].in;
      }
      if (!inside) continue;
      met.push_back(&t);
      in.push_back(base + t.offset + inner_begin);
      w.push_back(t.weight);
    }
    sum(in.data(), w.data(), int64_t(in.size()), inner_end - inner_begin, to + inner_begin);
    for (int64_t i = 0; i < inner_begin; ++i) edge_position(met, base, i, to);
    for (int64_t i = inner_end; i < last.out; ++i) edge_position(met, base, i, to);
  }

  void edge_position(const std::vector<const Tap*>& met, const float* base, int64_t i, float* to) const {
    float out = 0;
    for (const Tap* t : met) {
      const int64_t x = i + t->x[size_t(c.rank - 1)];
      if (x < 0 || x >= last.in) continue;
      out += base[t->offset + i] * t->weight;
    }
    to[i] = out;
  }

  const Conv& c;
  const Conv::Dim& last;
  const WeighedSum sum;
  std::vector<Tap> taps = {};
  int64_t inner_begin = 0, inner_end = INT64_MAX;  // positions of a row where every tap is inside it
};

}  // namespace

bool runs_as_stencil(const Conv& c, Family family) {
  if (family != Family::floats || c.out_features != 1 || c.groups != 1 || c.rank < 1 || c.packed_weights) return false;
  if (c.input.dtype != Dtype::f32 || c.weights.dtype != Dtype::f32 || c.output.dtype != Dtype::f32) return false;
  if (c.epilogue.run || !c.output.data) return false;
  for (int s = 0; s < c.rank; ++s)
    if (c.space[size_t(s)].in_dilation != 1) return false;
  const Conv::Dim& d = c.space[size_t(c.rank - 1)];
  const int64_t taps = c.in_features * product(c, &Conv::Dim::window, c.rank);
  return d.stride == 1 && d.in_stride == 1 && d.out_stride == 1 && d.out >= tuned::kRowMin && taps > 0 &&
         taps <= tuned::kStencilTapsMax;
}

void run_stencil(const Conv& c) {
  const Stencil stencil(c);
  const int64_t rows = c.batch * product(c, &Conv::Dim::out, c.rank - 1);
  const int64_t products = std::max<int64_t>(1, int64_t(stencil.taps.size()) * stencil.last.out);
  parallel_for(rows, std::max<int64_t>(1, (int64_t{1} << 17) / products), [&](int64_t begin, int64_t end) {
    std::vector<const float*> in;
    std::vector<float> w;
    for (int64_t r = begin; r < end; ++r) stencil.run(r, in, w);
  });
}

}  // namespace trine::host

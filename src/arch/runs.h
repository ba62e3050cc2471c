// The addresses that an operand's access pattern visits in one row, as runs. Shared by whoever touches memory without
// going through the row accessors of core.h.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "arch/program/program.h"

namespace trine::arch {

// A row's addresses as runs of evenly spaced elements: neighbouring dims that continue each other are one.
class Walk {
 public:
  Walk(const Pattern& p, int element_bytes) : stride_(element_bytes) {
    bool first = true;
    for (int d = p.rank; d-- > 0;) {
      const Dim& dim = p.dims[static_cast<size_t>(d)];
      const int64_t step = dim.stride * element_bytes, count = dim.count;
      if (count == 1) continue;
      if (first) {
        run_ = count;
        stride_ = step;
        first = false;
      } else if (outer_ == 0 && step == stride_ * run_) {
        run_ *= count;
      } else if (outer_ > 0 && step == steps_[outer_ - 1] * counts_[outer_ - 1]) {
        counts_[outer_ - 1] *= count;
      } else {
        steps_[outer_] = step;
        counts_[outer_++] = count;
      }
    }
  }

  // Calls f(byte offset from the row's start, elements, stride in bytes) for each run, in pattern order.
  template <class F>
  void each(F f) const {
    std::array<int64_t, kFreeDimsMax> at{};
    int64_t offset = 0;
    for (;;) {
      f(offset, run_, stride_);
      size_t d = 0;
      for (; d < outer_; ++d) {
        offset += steps_[d];
        if (++at[d] < counts_[d]) break;
        offset -= steps_[d] * counts_[d];
        at[d] = 0;
      }
      if (d == outer_) return;
    }
  }

 private:
  int64_t run_ = 1, stride_;
  size_t outer_ = 0;  // dims around the run, innermost first
  std::array<int64_t, kFreeDimsMax> counts_{}, steps_{};
};

template <class F>
void over_runs(const Pattern& p, int element_bytes, F f) {
  Walk(p, element_bytes).each(f);
}

// Lowest and one-past-highest byte of a row, from its start.
inline std::pair<int64_t, int64_t> row_extent(const Pattern& p, int element_bytes) {
  int64_t low = 0, high = 0;
  for (int i = 0; i < p.rank; ++i) {
    const Dim& d = p.dims[static_cast<size_t>(i)];
    const int64_t reach = d.stride * (static_cast<int64_t>(d.count) - 1);
    (reach < 0 ? low : high) += reach;
  }
  return {low * element_bytes, (high + 1) * element_bytes};
}

// Calls f(byte offset from the row's start, bytes) for each piece without gaps.
template <class F>
void over_pieces(const Pattern& p, int element_bytes, F f) {
  over_runs(p, element_bytes, [&](int64_t o, int64_t n, int64_t stride) {
    if (stride == element_bytes) return f(o, n * element_bytes);
    for (int64_t i = 0; i < n; ++i) f(o + i * stride, static_cast<int64_t>(element_bytes));
  });
}

}  // namespace trine::arch

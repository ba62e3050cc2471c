// The addresses that an operand's access pattern visits in one row, as runs. Shared by whoever touches memory without
// going through the row accessors of core.h.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "arch/program.h"

namespace trine::arch {

// Calls f(byte offset from the row's start, elements, stride in bytes) for each innermost run, in pattern order.
template <class F>
void over_runs(const Pattern& p, int element_bytes, F f) {
  int inner = p.rank;
  int64_t run = 1;
  while (inner > 0 &&
         (p.dims[static_cast<size_t>(inner - 1)].stride == run || p.dims[static_cast<size_t>(inner - 1)].count == 1)) {
    run *= p.dims[static_cast<size_t>(inner - 1)].count;
    --inner;
  }
  int64_t stride = element_bytes;
  if (run == 1 && inner > 0) {  // the innermost dim is strided: make it the run
    --inner;
    run = p.dims[static_cast<size_t>(inner)].count;
    stride = p.dims[static_cast<size_t>(inner)].stride * element_bytes;
  }
  std::array<uint32_t, kFreeDimsMax> at{};
  for (;;) {
    int64_t offset = 0;
    for (int d = 0; d < inner; ++d) offset += p.dims[static_cast<size_t>(d)].stride * at[static_cast<size_t>(d)];
    f(offset * element_bytes, run, stride);
    int d = inner - 1;
    for (; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < p.dims[static_cast<size_t>(d)].count) break;
      at[static_cast<size_t>(d)] = 0;
    }
    if (d < 0) return;
  }
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

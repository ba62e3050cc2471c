// What most rows share: walking the rows of their tiles, and the published interval rules.
// Every partition is one lane; a lane sees its own row of each operand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "arch/call.h"
#include "arch/chip.h"
#include "arch/core.h"
#include "arch/row.h"

namespace trine::arch {

// dst[p] = f(a[p], n) for every row, through f32: f(const float* a, float* d, int64_t n).
template <class F>
void map_rows(Core& c, const Call& i, std::string_view dst, std::string_view a, F f) {
  const Tile d = i.tile(dst), x = i.tile(a);
  std::vector<float> from(static_cast<size_t>(x.row_elements)), to(static_cast<size_t>(d.row_elements));
  for (int p = 0; p < d.partitions; ++p) {
    c.working_on(a);
    const float* in = c.view(x, p, from.data());
    c.working_on(dst);
    f(in, to.data(), x.row_elements);
    c.store(d, p, to.data());
  }
}

// The published rule for most instructions: one element per lane and cycle, never under the engine's floor.
inline Cost elementwise(double floor_cycles, double elements) {
  return {.cycles = static_cast<int64_t>(std::ceil(std::max(floor_cycles, elements)))};
}

}  // namespace trine::arch

// The two sides of a convolution as panels: positions of the output by window x features, and window x features by
// output features. Inside host/ only. Invariant: both sides walk the depth in the same order.
#pragma once

#include <array>
#include <cstdint>

#include "host/conv/conv.h"
#include "host/gemm/pack_fill.h"

namespace trine::host {

using Space = std::array<int64_t, kSpaceMax>;

// One group, and one phase of a dilated input: then inputs have no holes. Steps are in elements; `x` is a position of
// the input along one dimension of space.
struct Walk {
  struct Dim {
    int64_t extent = 1;
    int64_t in_step = 0, out_step = 0, w_step = 0;  // out_step of positions, w_step of depth
    int space = -1;                                 // which x it moves, or none
    int64_t x_step = 0;
  };
  using Dims = std::array<Dim, kSpaceMax + 1>;
  int dims = 1;                                      // of each: rank + 1
  Dims positions = {}, depth = {};                   // outermost first
  Space origin = {}, in_size = {};                   // x of position 0 and depth 0
  int64_t in_begin = 0, out_begin = 0, w_begin = 0;  // offsets of that position
  bool natural = true;                               // positions are (batch, space) in order

  int64_t position_count() const;
  int64_t depth_count() const;
};
// `phase` is below phase_count(c). An empty depth means that this phase of the output is zero.
Walk make_walk(const Conv& c, int64_t group, int64_t phase);
int64_t phase_count(const Conv& c);

struct Im2col {
  const Walk& walk;
  const std::byte* data;
  Dtype dtype;
  Family family;
  int64_t k;
  Simd simd;

  void gather(int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t count, void* to) const;
};

struct WeightPanels {
  const Walk& walk;
  const std::byte* data;
  int64_t lane_stride;
  Dtype dtype;
  Family family;
  int64_t k;
  Simd simd;

  void gather(int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t count, void* to) const;
};

}  // namespace trine::host

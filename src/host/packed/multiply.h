// Rows of activations times packed weights, over the pool's threads. Several weights that share their input go in one
// call. Invariant: a row's values do not depend on the other rows, on threads or on the instruction set.
#pragma once

#include <span>
#include <vector>

#include "host/packed/kernels.h"

namespace trine::host {

struct Times {
  const PackedMatrix* weight;
  float* out;
  int64_t stride;  // of out's rows
};

// What a multiply needs besides its arguments; kept between calls.
struct MultiplyScratch {
  std::vector<int8_t> codes;
  std::vector<float> scales, sums;
  bool whole = false;  // activations stay f32 beside packed weights, too
};

void multiply(std::span<const Times> of, const float* x, int64_t rows, int64_t inputs, int64_t stride,
              MultiplyScratch& scratch);

}  // namespace trine::host

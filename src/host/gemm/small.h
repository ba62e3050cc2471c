// Products of few numbers each, in AVX2 with FMA. Called only where simd_best() says avx2. Not for long rows: up to
// thresholds::small::kSmallColumns. Sums run in order of depth, or, along lines, eight side by side.
#pragma once

#include "arch/plan/plan.h"

namespace trine::host {

// Where the sums of an item go.
struct SmallSums {
  float* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
};
using SmallProduct = void (*)(const arch::GemmStep& g, const float* a, const float* b, const SmallSums& c);

// Rows of b lie side by side. Null where the sizes are not meant here.
SmallProduct small_rows_avx2(const arch::GemmStep& g);
// Rows of a and columns of b lie along the depth.
SmallProduct small_lines_avx2(const arch::GemmStep& g);

}  // namespace trine::host

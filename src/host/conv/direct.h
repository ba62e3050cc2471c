// Convolution into few features, its input read where it lies: a tap of the window is a pointer for each of a few
// positions, and features are the run behind it. Nothing is gathered, which for few output features is most of the
// work. Taps that no position meets are left out. Inside host/ only: conv() decides.
#pragma once

#include "host/conv/im2col.h"

namespace trine::host {

bool runs_direct(const Conv& c, Family family);
void run_direct(const Conv& c, int64_t group, int64_t phase);

// Where each row of a group begins, and the weights of its first feature.
struct DirectTap {
  std::array<const float*, kRowsMax> rows = {};
  const float* weights = nullptr;
};
// Along a tap: so many features, `step` and `weights_step` elements apart; `shift` elements further in the weights.
struct DirectRun {
  int64_t features = 0, step = 1, weights_step = 0, shift = 0;
};
// to[r][j] = sum over taps and features of rows[r] times weights[j], or += with `add`, for 8 or 16 columns j.
using DirectKernel = void (*)(const DirectTap* taps, int64_t count, const DirectRun& run, float* to, int64_t ld,
                              bool add);
struct DirectKernels {
  std::array<DirectKernel, kRowsMax + 1> half = {}, whole = {};  // by number of rows
};
const DirectKernels& direct_kernels_avx2();  // only where simd_best() says avx2

}  // namespace trine::host

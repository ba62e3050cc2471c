// Convolution of each feature by itself: no sum over features, so no multiply of matrices; bound by memory.
// Inside host/ only: conv() decides.
#pragma once

#include "host/conv/conv.h"

namespace trine::host {

bool runs_depthwise(const Conv& c, Family family);
void run_depthwise(const Conv& c);

// to[i] = sum over t of in[t][i] * w[t][i], for i < n.
using TapSum = void (*)(const float* const* in, const float* const* w, int64_t taps, int64_t n, float* to);
TapSum tap_sum_avx2();  // only where simd_best() says avx2

}  // namespace trine::host

// Convolution into one feature along which nothing is summed side by side: positions of a row are the vector direction,
// so no panel is gathered for one column. Inside host/ only: conv() decides.
#pragma once

#include "host/conv/conv.h"

namespace trine::host {

bool runs_as_stencil(const Conv& c, Family family);
void run_stencil(const Conv& c);

// to[i] = sum over t of in[t][i] * w[t], for i < n.
using WeighedSum = void (*)(const float* const* in, const float* w, int64_t taps, int64_t n, float* to);
WeighedSum weighed_sum_avx2();  // only where simd_best() says avx2

}  // namespace trine::host

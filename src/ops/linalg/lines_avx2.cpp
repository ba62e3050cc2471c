// Lines in AVX2, without a fused multiply-add. Called only where simd_best() says avx2.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#include "ops/linalg/lines.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#endif

#include "ops/linalg/lines_steps.h"

namespace trine::ops {

const LineKernels& line_kernels_avx2() { return LineSteps<Vector32>::kKernels; }

}  // namespace trine::ops

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

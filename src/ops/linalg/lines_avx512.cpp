// Lines in AVX-512, without a fused multiply-add. Called only where has_avx512_dq() says so.
// Everything lives in an unnamed namespace, so no function compiled for AVX-512 can stand in for a portable one at
// link.
#include "ops/linalg/lines.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512dq,prefer-vector-width=512")
#endif
#endif

#include "ops/linalg/lines_steps.h"

namespace trine::ops {

const LineKernels& line_kernels_avx512() { return LineSteps<Vector64>::kKernels; }

}  // namespace trine::ops

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

// The kernels of a transform in AVX2. Called only where simd_best() says avx2.
// Everything lives in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#include "ops/fourier/fourier.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#endif

#include "ops/fourier/fourier_steps.h"

namespace trine::ops {

const FourierKernels<float>& fourier_kernels_avx2(float) { return kKernels<float>; }
const FourierKernels<double>& fourier_kernels_avx2(double) { return kKernels<double>; }

}  // namespace trine::ops

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

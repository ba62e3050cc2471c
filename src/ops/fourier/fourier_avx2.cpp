// The steps of a transform in AVX2. Called only where simd_best() says avx2.
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

void fourier_step_avx2(const FourierStep<float>& step, Planes<float> from, Planes<float> to) {
  run_any(step, from, to);
}
void fourier_step_avx2(const FourierStep<double>& step, Planes<double> from, Planes<double> to) {
  run_any(step, from, to);
}

}  // namespace trine::ops

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

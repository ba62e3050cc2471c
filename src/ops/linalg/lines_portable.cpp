// Lines for any processor, and the choice.
#include "base/simd.h"

#include "ops/linalg/lines_steps.h"

namespace trine::ops {

const LineKernels& line_kernels_portable() { return LineSteps<Vector32>::kKernels; }

const LineKernels& line_kernels() {
#if defined(__x86_64__)
  static const LineKernels& best = has_avx512_dq()             ? line_kernels_avx512()
                                   : simd_best() == Simd::avx2 ? line_kernels_avx2()
                                                               : line_kernels_portable();
  return best;
#else
  return LineSteps<Vector32>::kKernels;
#endif
}

Complex128 dot_lines(const Complex128* x, const Complex128* y, int64_t n) {
  constexpr int64_t kParts = 8;  // sums that do not wait for each other
  Complex128 sums[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts)
    for (int64_t k = 0; k < kParts; ++k) sums[k] += wide_multiply(std::conj(x[i + k]), y[i + k]);
  for (; i < n; ++i) sums[i % kParts] += wide_multiply(std::conj(x[i]), y[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace trine::ops

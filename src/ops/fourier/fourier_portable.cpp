// The kernels of a transform for any processor.
#include "ops/fourier/fourier_steps.h"

namespace trine::ops {

const FourierKernels<float>& fourier_kernels_portable(float) { return kKernels<float>; }
const FourierKernels<double>& fourier_kernels_portable(double) { return kKernels<double>; }

}  // namespace trine::ops

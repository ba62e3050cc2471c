// The steps of a transform for any processor.
#include "ops/fourier/fourier_steps.h"

namespace trine::ops {

void fourier_step_portable(const FourierStep<float>& step, Planes<float> from, Planes<float> to) {
  run_any(step, from, to);
}
void fourier_step_portable(const FourierStep<double>& step, Planes<double> from, Planes<double> to) {
  run_any(step, from, to);
}

}  // namespace trine::ops

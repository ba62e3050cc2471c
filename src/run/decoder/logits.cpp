// exp_sum by the kernels of this processor.
#include "run/decoder/logits.h"

#include "host/packed/kernels.h"

namespace trine::run {

float exp_sum(std::span<const float> logits, float largest) {
  return host::packed_kernels().exp_sum(logits.data(), int64_t(logits.size()), largest);
}

}  // namespace trine::run

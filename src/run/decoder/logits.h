// Sums over logits at the host's vector speed, for whoever samples.
#pragma once

#include <span>

namespace trine::run {

float exp_sum(std::span<const float> logits, float largest);  // of exp(logit - largest), in a fixed order

}  // namespace trine::run

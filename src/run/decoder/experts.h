// Which experts a token goes to, and with what weight, from its router's scores. Not the experts themselves.
// Invariant: a token's choice depends on its own scores alone; of equal scores the first expert is chosen.
#pragma once

#include <span>

#include "run/decoder/shape.h"

namespace trine::run {

// experts, weights: of `shape.chosen` each. correction: added for the choice alone; empty: none.
void route(const RouterShape& shape, std::span<const float> logits, std::span<const float> correction,
           std::span<int32_t> experts, std::span<float> weights);

}  // namespace trine::run

// Nests whose values are bytes and truths alone: machine code takes 32 of them to a vector instead of eight.
#pragma once

#include "host/loops/nest.h"

namespace trine::host {

inline constexpr int64_t kByteLanes = 32;

// Only elementwise ones, of ops that AVX2 has for bytes, whose memory lies along the vector, of a vector at least.
bool is_of_bytes(const LoopNest& nest);

}  // namespace trine::host

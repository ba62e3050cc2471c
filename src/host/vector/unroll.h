// Vector code for several indices of a vertical nest's inner loop at once: partial results of reductions are read and
// written once for all of them. Invariant: every lane's sums run in the same order as index by index.
#pragma once

#include <optional>

#include "host/vector/vector.h"

namespace trine::host {

inline constexpr uint32_t kRowsAtOnce = 4;  // a read and a write of the sums for as many reads of the operand

// The stage's list, kRowsAtOnce times. Nothing where it does more than read, compute and reduce.
std::optional<VList> unroll(const LoopNest& nest, const VStage& stage);

}  // namespace trine::host

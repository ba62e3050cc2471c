// Collectives of ranks that share memory. Every rank copies what it brings into its slot, chunk by chunk; sums are
// taken there, each rank a share of every chunk, and taken out by whoever gets them. A chunk's copy in, the sums of the
// one before and the copy out of the one before that go on in one phase. Small sums are the last arrival's, in one
// phase.
#pragma once

#include "run/transport/shared.h"

namespace trine::run {

// `number` counts the group's collectives from 1; `order` is that of a reduction's sums.
Result<void> run_shared(Shared& shared, const Operation& operation, uint64_t number, const SumOrder* order);

}  // namespace trine::run

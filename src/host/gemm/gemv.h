// The multiply for few rows (decode): B's panels are read once, at the speed of memory, straight from their own
// precision. Not for B that is not packed: run_blocked packs it as it goes.
// Invariant: bit-equal to run_blocked's other paths.
#pragma once

#include "host/gemm/blocked.h"

namespace trine::host {

bool runs_as_gemv(const Blocked& w);
void run_gemv(const Blocked& w);

}  // namespace trine::host

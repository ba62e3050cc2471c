// Unroll: device loops whose iterations fill tiles of their own are repeated a few times inside, so that one
// iteration's loads run beside the computation of the one before. Between iterations of the loop every engine waits for
// the others.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

// True when a loop was changed. The tiles of the repeats are still the same tensors; see memory/versions.h.
bool unroll_loops(Kernel& kernel);

}  // namespace trine::compile

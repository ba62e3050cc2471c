// Hoist: what every iteration of a loop would make alike is made once, before it: weights that the body reads,
// transposed or cast, masks and constants. As much of it as leaves the body room for its own tiles twice over.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

// True when instructions were moved.
bool hoist_from_loops(Kernel& kernel);

}  // namespace trine::compile

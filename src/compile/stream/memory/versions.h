// Versions: a tensor of the compiler's that is overwritten as a whole starts anew, so from there on it may lie
// elsewhere; a buffer that an NKI kernel allocated once is one place, and who fills it again waits for its readers.
// Each version becomes a tensor of its own; with addresses given out round-robin, a buffer that a kernel fills in a
// loop then is as many buffers as there is room for, and loads need not wait for the computation before.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

void split_versions(Kernel& kernel);

}  // namespace trine::compile

// Reload: which loads may be made again. A tile that came from HBM and was not changed since need not be saved when it
// leaves SBUF: the load is repeated when it is needed, as long as nobody has written its source by then.
#pragma once

#include <vector>

#include "compile/stream/memory/free_space.h"

namespace trine::compile {

// Of each instruction of the core: a load that may be put off, and repeated, until the last use of what it fills.
std::vector<char> repeatable_loads(Kernel& kernel, int core, const std::vector<LiveRange>& ranges);

}  // namespace trine::compile

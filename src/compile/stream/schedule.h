// Schedule: in which order the instructions of a core are issued, on which engine and, for a transfer, on which queue.
// One list for all engines of a core: each engine issues its steps in the order of the list, and no instruction stands
// before one that it depends on, so that whatever waits are put between engines, some engine can always go on.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/stream/dependences.h"
#include "compile/stream/kernel.h"

namespace trine::compile {

struct Step {
  uint32_t insn = 0;
  arch::Engine engine = arch::Engine::sync;
  uint8_t queue = 0;  // transfers
};

// When the last of a kernel's results is there, by that schedule.
double scheduled_ns(Kernel& kernel, const Edges& edges);

// One list per core.
std::vector<std::vector<Step>> schedule(Kernel& kernel, const Edges& edges);

}  // namespace trine::compile

// Spill: addresses for the SBUF tensors of one core where they do not all fit. Instructions are walked in order; when a
// tensor finds no room, others leave and come back before they are used: loaded once more if a load is all that wrote
// them, else saved to HBM and brought back. Inserts the transfers.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

// Who leaves.
enum class Leaver : uint8_t {
  needed_last,  // our own choice: the fewest transfers
  used_first,   // Neuron's allocator: leavers.h, and where that is not enough what was used longest ago
};

// `free_space` holds only what has an address of the user's. PSUM is never spilled: no DMA reaches it.
std::optional<Diagnostic> spill(Kernel& kernel, FreeSpace free_space, int core, Leaver leaver);

}  // namespace trine::compile

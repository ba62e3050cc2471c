// Spill: places the SBUF tensors of one core where they do not all fit. Works are walked in order; when a tensor finds
// no room, the ones that are needed again last leave and come back before they are used: loaded once more if a load is
// all that wrote them, else saved to HBM and brought back. Inserts the transfers.
#pragma once

#include <optional>

#include "base/complaint.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

// `shelf` holds only what the user placed. PSUM is never spilled: no DMA reaches it.
std::optional<Complaint> spill(Kernel& kernel, Shelf shelf, int core);

}  // namespace trine::compile

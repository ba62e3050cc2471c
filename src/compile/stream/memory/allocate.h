// Allocate: gives every tensor of SBUF and PSUM an address, from its first use to its last in program order. The next
// tensor goes after the one before and wraps around at the end, so that an address is used again as late as possible:
// loads then run ahead of the computation by themselves. What does not fit that way is packed tightly in PSUM, and in
// SBUF, where packing leaves loads no room to run ahead, kept in HBM between its uses (spill.h). In kernels that
// Neuron's tensorizer places, what can be packed is: its allocator spills only what does not fit.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "compile/stream/kernel.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

// What does not fit, or nothing. `psum_share`: PSUM's tensors of half a bank at most have one part in so many of it to
// themselves; 0: all go round together.
std::optional<Diagnostic> allocate(Kernel& kernel, int psum_share = 0);
// Whether there are such tensors and longer ones, all of them ours to place.
bool psum_has_both(const Kernel& kernel);

// The diagnostic that `range` finds no room beside `live`.
Diagnostic does_not_fit(Kernel& kernel, const LiveRange& range, std::vector<LiveRange> live, int64_t limit);

}  // namespace trine::compile

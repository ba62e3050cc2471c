// Leavers: which tensors leave SBUF after every use, as Neuron's allocator has it (a graph coloured after Chaitin: what
// is spilled is spilled everywhere). Of those that wait where too much is held, the ones that cost the fewest bytes for
// what they free, and all tiles of their line with them.
#pragma once

#include <vector>

#include "compile/stream/memory/free_space.h"

namespace trine::compile {

// What is asked of a tensor of SBUF; none of others.
struct Uses {
  std::vector<uint32_t> insns;  // in order
  std::vector<char> writes;     // of each: it changes the tensor
  double lead_ns = 0;           // that it is away at least, where it leaves
  int64_t bytes = 0;            // in all partitions
  bool is_loaded = false;       // nothing but loads writes it, which may be made again
};

// Of each tensor: it leaves. `elapsed`: see Costs; `limit`: bytes per partition that may be held.
std::vector<char> find_leavers(const Kernel& kernel, const std::vector<LiveRange>& ranges,
                               const std::vector<Uses>& uses, const std::vector<double>& elapsed, int64_t limit);

}  // namespace trine::compile

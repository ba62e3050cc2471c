// Summed: loops whose result a multiply by ones alone reads, to sum it over rows. Where the result has no room on chip
// the loop adds it up on the way, and it is never in memory.
#pragma once

#include "compile/device/loops/blocks.h"
#include "compile/device/memory/store.h"
#include "compile/graph/fuse.h"

namespace trine::compile::device {

struct Summed {
  Unit loop = {};
  int64_t groups = 1, channels = 1;  // sums, elements of a row
};
using SummedBy = std::unordered_map<const ir::Node*, Summed>;  // the multiply, and what it sums

// Those loops; each comes just before the unit of its multiply afterwards. users: of every node.
SummedBy find_summed(std::vector<Unit>& units, std::span<const ir::Value> live_out,
                     const std::unordered_map<const ir::Node*, std::vector<const ir::Node*>>& users, Store& store,
                     const arch::Chip& chip);

// How the loop goes: dims before `split` on partitions, as many tiles of them for each group.
struct SumWalk {
  size_t split = 0;
  std::vector<Block> tiles = {}, blocks = {};
};
// Nothing where a group, or a row, is no whole dims of the space.
std::optional<SumWalk> walk_of_sum(const Dims& space, const Summed& sum, const arch::Chip& chip);

}  // namespace trine::compile::device

// Which collectives a program asks for, of how many bytes among how many: what its time on many cores adds.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace trine::compile {

struct CollectiveUse {
  std::string kind = {};  // all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast
  int64_t bytes = 0;      // the larger of a rank's buffers
  int64_t ranks = 1;      // in a group
  int64_t count = 1;      // how often
};

// Equal ones counted together. Those inside a loop count once.
std::vector<CollectiveUse> collectives_of(const ir::Graph& graph);

}  // namespace trine::compile

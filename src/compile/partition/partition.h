// A program over whole tensors becomes one for each device's parts, with collectives where devices need each other's.
// Parameters lie as their shardings say, results as wanted. Invariant: any program is cut correctly; an op of which
// nothing is known is computed whole on every device.
#pragma once

#include "base/result.h"
#include "compile/partition/sharding.h"
#include "ir/graph.h"

namespace trine::compile {

struct Partitioned {
  ir::Graph graph;
  ShardingTexts shardings = {};
};

bool needs_partition(const ir::Graph& graph);
Result<Partitioned> partition(const ir::Graph& graph);

}  // namespace trine::compile

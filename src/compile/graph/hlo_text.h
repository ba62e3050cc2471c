// A program's graph as XLA writes programs, for people and for tests that look for an op in a compiled program. As it
// runs on each device: with the collectives that the partitioner put in, before loops are fused. Nobody reads it back.
#pragma once

#include <string>

#include "compile/partition/sharding.h"
#include "ir/graph.h"

namespace trine::compile {

std::string hlo_text(const ir::Graph& graph, const ShardingTexts& shardings, int64_t partitions);

}  // namespace trine::compile

// A StableHLO module as a tensor graph: the function main with its calls inlined, attributes as plain values, the
// regions of control flow by the graph's rules, small regions (a sum's, a sort's) by their kind. Nothing is optimised.
// What ops/ has no op for is refused by its name, with the user's line.
#pragma once

#include "base/result.h"
#include "front/stablehlo/module.h"
#include "ir/graph.h"

namespace trine::front::stablehlo {

// A program of more than one partition has the shapes of one device where it is all manual (shard_map), and the
// attribute is_local; else whole shapes, constraints, and to_local and to_global around what is manual.
Result<ir::Graph> to_graph(const Module& module);

}  // namespace trine::front::stablehlo

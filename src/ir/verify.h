// The numbered rules every graph obeys; checked after reading and, in tests, between all passes.
//   V1 a node's inputs, and the results of its regions, come before it
//   V2 dims are not negative, and a tensor's bytes can be counted
//   V3 a parameter belongs to the program or to exactly one region, and is used only there
//   V4 an op's results are what its type rule says (the rule is given by ops/)
//   V5 while: cond and body take the carried types; cond gives bool[], body gives them back
//   V6 case: an s32[] index first; each branch takes the used types and gives the results' types
//   V7 results and effects are values of the graph
#pragma once

#include "base/result.h"
#include "ir/graph.h"

namespace trine::ir {

// Judges one node by its op's own rule.
using NodeRule = Result<void> (*)(const Graph& graph, const Node& node);

Result<void> verify(const Graph& graph, NodeRule rule = nullptr);

}  // namespace trine::ir

// The graph after each pass that leaves one, as text: so that any of them can be evaluated by the ops' reference
// meanings and compared with the one before. For tests, and for finding the pass that changes a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/chips/chip.h"
#include "compile/graph/pipeline.h"

namespace trine::compile {

struct PassGraph {
  std::string_view pass = {};
  std::string text = {};
};

// The imported graph first. For the device its own graph passes too, for `chip`.
Result<std::vector<PassGraph>> graphs_of_passes(ir::Graph graph, const GraphOptions& options, const arch::Chip& chip);

// Roughly how many steps the reference evaluator takes: a loop whose count is not known counts as a few iterations.
double evaluation_cost(const ir::Graph& graph);

}  // namespace trine::compile

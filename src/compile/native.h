// The host plan of a graph: what the native executor runs.
#pragma once

#include <memory>

#include "arch/plan/plan.h"
#include "base/result.h"
#include "ir/graph.h"

namespace trine::compile {

// Simplified, fused, placed. The way from a front-end's graph to the native executor.
Result<std::shared_ptr<const arch::HostPlan>> compile_native(const ir::Graph& graph);

// Only planned, as it is. The plan keeps the graph: steps without a kernel of their own call the op's reference meaning
// on its nodes.
Result<std::shared_ptr<const arch::HostPlan>> plan_native(std::shared_ptr<const ir::Graph> graph);

}  // namespace trine::compile

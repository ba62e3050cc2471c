// The host plan of a graph: what the native executor runs.
#pragma once

#include <memory>

#include "arch/plan/plan.h"
#include "base/result.h"
#include "ir/graph.h"

namespace trine::compile {

// The plan keeps the graph: steps without a kernel of their own call the op's reference meaning on its nodes.
Result<std::shared_ptr<const arch::HostPlan>> plan_native(std::shared_ptr<const ir::Graph> graph);

}  // namespace trine::compile

// Collectives of the graph as steps of a plan.
#pragma once

#include "arch/plan/plan.h"
#include "base/result.h"
#include "ir/graph.h"

namespace trine::compile {

bool is_collective(const ir::Node& node);
Result<arch::CollectiveStep> collective_step(const ir::Node& node);

}  // namespace trine::compile

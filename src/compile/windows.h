// gather and scatter as windows at computed places: strides of the loops over index vectors and over a window.
#pragma once

#include <optional>

#include "arch/plan/plan.h"
#include "ir/graph.h"

namespace trine::compile {

// Nothing where the op's combiner has no kernel: a region, a kind the dtype's reference alone knows.
std::optional<arch::WindowStep> plan_windows(const ir::Node& node);

}  // namespace trine::compile

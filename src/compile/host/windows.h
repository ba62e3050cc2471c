// gather and scatter as windows at computed indices: strides of the loops over index vectors and over a window.
#pragma once

#include <optional>

#include "arch/plan/plan.h"
#include "ir/graph.h"

namespace trine::compile {

// Nothing where the op's combiner has no kernel: a region, a kind the dtype's reference alone knows.
std::optional<arch::WindowStep> plan_windows(const ir::Node& node);

// Can a loop do it element by element? Where whole rows of the operand are wanted, copying them is quicker.
bool is_loop_gather(const ir::Node& node);

// A scatter of what a gather alone gives it reads the windows where they lie; the gather's step goes. `plan` has its
// outputs, but no offsets yet.
void join_windows(arch::HostPlan& plan);

}  // namespace trine::compile

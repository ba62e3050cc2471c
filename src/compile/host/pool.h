// reduce_window as a fused loop: windows walked by strides, over a padded copy where they leave the operand.
#pragma once

#include <optional>

#include "arch/plan/plan.h"
#include "ir/graph.h"

namespace trine::compile {

struct Pool {
  std::optional<arch::MoveStep> pad = {};  // of the operand, to these dims, by what changes nothing
  Dims padded = {};
  Tensor neutral = {};
  arch::LoopProgram program = {};  // operands: the padded operand `loads` times, the start value, the result
  size_t loads = 1;
};

// Nothing where the window is large, the reduction a region, or the dtype no loop program's.
std::optional<Pool> plan_pool(const ir::Node& node);

}  // namespace trine::compile

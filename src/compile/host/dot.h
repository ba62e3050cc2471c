// dot_general as one multiply of strided matrices: which dims are rows, columns, depth and batch.
#pragma once

#include <optional>

#include "arch/plan/plan.h"
#include "compile/graph/index_map.h"

namespace trine::compile {

// An operand as it lies in memory: the value that has it, and the walk over the operand's own dims.
struct DotOperand {
  ir::Value memory = {};
  Walk walk = {};
};

struct DotStep {
  arch::GemmStep step = {};
  bool swapped = false;  // A is the right operand
  // Set where depth cannot be walked with one stride: this operand (0 left, 1 right) must first be copied dense,
  // with its dims in this order.
  int copy = -1;
  std::vector<int64_t> copy_order = {};
};

// prefer_right_as_b: the right operand is the one worth packing.
DotStep plan_dot(const ir::Node& dot, const DotOperand& left, const DotOperand& right, bool prefer_right_as_b);

// The transposed product of the same numbers: in[0] and in[1] are swapped too.
void swap_sides(arch::GemmStep& step);

// A multiply without rows and columns, which reads each number once, or of few numbers, as a loop that sums products:
// in[0] is A, in[1] B. Nothing for others, or where loop programs do not know a dtype.
std::optional<arch::LoopProgram> dot_loop(const arch::GemmStep& step, const ir::Type& a, const ir::Type& b,
                                          const ir::Type& c);

}  // namespace trine::compile

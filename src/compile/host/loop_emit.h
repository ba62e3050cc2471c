// The loop program of a loop unit: values are pulled from its roots down to what lies in memory.
#pragma once

#include <vector>

#include "arch/plan/loop.h"
#include "base/result.h"
#include "compile/graph/fuse.h"

namespace trine::compile {

struct LoopCode {
  arch::LoopProgram program;
  std::vector<ir::Value> operands = {};  // in the program's order: values read, then the roots written
  size_t inputs = 0;                     // how many of them are read
};

Result<LoopCode> emit_loop(const Unit& unit);
// The same of a unit with joins: one program for each box of its space in which every join is one of its parts.
Result<std::vector<LoopCode>> emit_loops(const Unit& unit);

}  // namespace trine::compile

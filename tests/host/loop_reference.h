// The plain meaning of loop programs, element by element: f32 ops are computed in f64 and rounded, integers in 64 bits
// and wrapped. Sums are f64. The referee of the interpreter and of the machine code.
#pragma once

#include <span>
#include <vector>

#include "arch/plan/loop.h"

namespace trine::test {

// Writes the outputs of a verified program.
void evaluate(const arch::LoopProgram& program, std::span<void* const> operands);

}  // namespace trine::test

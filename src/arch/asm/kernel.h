// A recorded kernel as text, both ways: assembly in program order, without streams or semaphores.
//   kernel NAME, then `chip`, `tensor` and `const` lines as in assembly; a tensor on chip without `at` has no address
//   yet, one with `| own` is the user's own buffer, and the line `middle end` says that Neuron's tensorizer rearranges
//   the kernel. Instructions follow, each maybe with notes after bars:
//   | on vector gpsimd      the engines it may run on, where they are not all that the row allows
//   | after 0 3             instructions, by their number from 0, that must be over before it
//   | in order              it does not pass another such instruction on its engine
//   | own queue             the DMA queue is the user's choice
//   | while                 of a loop: it goes on while its register is not zero
// Invariant: what is printed of a kernel of one core reads back to a kernel that is printed alike.
#pragma once

#include <string>
#include <string_view>

#include "arch/program/kernel.h"

namespace trine::arch {

// has_addresses: the tensors on chip were given theirs; else only those that the user chose are printed.
std::string disassemble(const Kernel& kernel, bool has_addresses);

std::string describe_insn(const Kernel& kernel, const KernelInsn& insn);  // without notes and indentation

// For the chip that the text names, else for `chip`.
Result<Kernel> assemble_kernel(std::string_view text, std::string_view file_name, const Chip& chip);

// The engines that may hold it where nobody says otherwise.
EngineMask engines_of(const Row& row);

}  // namespace trine::arch

// How a recorder of kernels ends an instruction: what front/nki/trace.h and compile/device/record.h share. Not how
// operands are named, nor how what is wrong is told: that is each one's own.
#pragma once

#include "arch/program/kernel.h"

namespace trine::arch {

// Streams that may hold an instruction by its row: of a transfer those that start them, of a rendezvous Sync's.
EngineMask open_engines(const KernelInsn& insn);
// Those of `open` on which check_on finds nothing wrong; its first error where there are none. any: one is enough.
Result<EngineMask> legal_engines(const Kernel& kernel, const KernelInsn& insn, EngineMask open, const LoopNest& loops,
                                 bool any = false);
// What follows on the core, up to add_end_loop, is a loop of these iterations, or one that repeats while its register
// is not zero. The nest has room for it.
void add_loop(Kernel& kernel, LoopNest& loops, const Operand& iterations, bool repeats, int core = 0);
void add_end_loop(Kernel& kernel, LoopNest& loops, int core = 0);

}  // namespace trine::arch

// See record.h.
#include "arch/program/record.h"

#include <optional>

namespace trine::arch {

EngineMask open_engines(const KernelInsn& insn) {
  if (insn.unit() == Unit::queue) return kSync | kScalar | kGpsimd;
  return insn.unit() == Unit::rendezvous ? kSync : insn.info->row->engines;
}

Result<EngineMask> legal_engines(const Kernel& kernel, const KernelInsn& insn, EngineMask open, const LoopNest& loops,
                                 bool any) {
  EngineMask legal = 0;
  std::optional<Error> first;
  for (int e = 0; e < kEngines && !(any && legal); ++e) {
    if (!(open & (1 << e))) continue;
    if (auto ok = check_on(kernel, insn, static_cast<Engine>(e), loops); ok)
      legal |= bit(static_cast<Engine>(e));
    else if (!first)
      first = ok.error();
  }
  if (legal) return legal;
  if (first) return *std::move(first);
  return fail(Code::internal, "no engine may hold it");
}

static KernelInsn control(uint16_t opcode, int core) {
  KernelInsn insn;
  insn.info = row_by_opcode(opcode);
  insn.core = static_cast<uint8_t>(core);
  insn.engines = kAnyEngine;
  return insn;
}

void add_loop(Kernel& kernel, LoopNest& loops, const Operand& iterations, bool repeats, int core) {
  KernelInsn insn = control(kOpLoop, core);
  insn.repeats = repeats;
  insn.operand = static_cast<uint32_t>(kernel.program().operands.size());
  kernel.program().operands.push_back(iterations);
  kernel.insns.push_back(insn);
  const bool is_known = iterations.kind == OperandKind::immediate;
  loops.iterations[static_cast<size_t>(loops.depth++)] = repeats    ? 1
                                                         : is_known ? static_cast<int64_t>(iterations.immediate)
                                                                    : -1;
}

void add_end_loop(Kernel& kernel, LoopNest& loops, int core) {
  kernel.insns.push_back(control(kOpEndLoop, core));
  --loops.depth;
}

}  // namespace trine::arch

// Loads whose source stays as it is; see reload.h.
#include "compile/stream/memory/reload.h"

#include <algorithm>

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

constexpr uint32_t kOtherCore = kNoInsn - 1;  // written at no known time

uint32_t storage(const arch::Program& p, uint32_t tensor) {
  const int32_t alias = p.tensors[tensor].alias;
  return alias < 0 ? tensor : static_cast<uint32_t>(alias);
}

// Of each HBM tensor: the instructions that write it, in order.
std::vector<std::vector<uint32_t>> writers_of(Kernel& kernel, int core) {
  const arch::Program& p = kernel.program();
  std::vector<std::vector<uint32_t>> out(p.tensors.size());
  for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
    const KernelInsn& insn = kernel.insns[w];
    for (size_t s = 0; s < insn.info->slots.size(); ++s) {
      const Operand& o = p.operands[insn.operand + s];
      if (o.kind == OperandKind::tile && insn.info->slots[s].writes() && p.tensors[o.tensor].space == Space::hbm)
        out[storage(p, o.tensor)].push_back(insn.core == core ? w : kOtherCore);
    }
  }
  for (auto& insns : out) std::sort(insns.begin(), insns.end());
  return out;
}

// HBM to SBUF of its own core, bits as they are, at addresses that no data decides.
bool is_load(const arch::Program& p, const KernelInsn& w) {
  if (w.info->row->name != "dma_copy" && w.info->row->name != "dma_transpose") return false;
  const Operand &dst = p.operands[w.operand], &src = p.operands[w.operand + 1];
  return p.tensors[dst.tensor].space == Space::sbuf && p.tensors[dst.tensor].core == w.core && !dst.dynamic &&
         p.tensors[src.tensor].space == Space::hbm && !src.dynamic &&
         p.patterns[dst.pattern].dtype == p.patterns[src.pattern].dtype;
}

}  // namespace

std::vector<char> repeatable_loads(Kernel& kernel, int core, const std::vector<LiveRange>& ranges) {
  const arch::Program& p = kernel.program();
  const auto writers = writers_of(kernel, core);
  std::vector<char> out(kernel.insns.size());
  int depth = 0;
  for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
    const KernelInsn& insn = kernel.insns[w];
    if (insn.core != core) continue;
    if (begins_loop(insn)) ++depth;
    if (ends_loop(insn)) --depth;
    if (depth || !is_load(p, insn) || insn.fixed_order || insn.afters) continue;
    const auto& written = writers[storage(p, p.operands[insn.operand + 1].tensor)];
    if (!written.empty() && written.back() == kOtherCore) continue;
    const auto next = std::upper_bound(written.begin(), written.end(), w);
    out[w] = next == written.end() || *next > ranges[p.operands[insn.operand].tensor].last;
  }
  for (const uint32_t w : kernel.afters) out[w] = 0;  // others wait for this one
  return out;
}

}  // namespace trine::compile

// Which engines need registers, and their copies of register instructions; see registers.h.
#include "compile/stream/registers.h"

#include <algorithm>

namespace trine::compile {

using arch::Engine;
using arch::EngineMask;
using arch::OperandKind;

namespace {

constexpr Engine kPreferred[] = {Engine::sync, Engine::vector, Engine::tensor, Engine::scalar, Engine::gpsimd};

bool reads_register(const arch::Program& p, const KernelInsn& w) {
  for (size_t s = 0; s < w.info->slots.size(); ++s) {
    const arch::Operand& o = p.operands[w.operand + s];
    if (o.kind == OperandKind::reg) return true;
    if (o.kind != OperandKind::tile || !o.dynamic) continue;
    const arch::Dynamic& d = p.dynamics[o.dynamic - 1];
    if (d.kind == arch::DynamicKind::reg) return true;
    const uint32_t inner = p.operands[d.index].dynamic;
    if (inner && p.dynamics[inner - 1].kind == arch::DynamicKind::reg) return true;
  }
  return false;
}

// move, alu, load, alloc: what gives a register its value.
bool makes_register(const KernelInsn& w) {
  return w.unit() == arch::Unit::control && !w.info->slots.empty() && w.info->slots[0].writes() &&
         (w.info->slots[0].kinds & arch::kReg);
}

EngineMask decided(EngineMask open) {
  for (const Engine e : kPreferred)
    if (open & arch::bit(e)) return arch::bit(e);
  return open;
}

}  // namespace

void settle_registers(Kernel& kernel) {
  const arch::Program& p = kernel.program();
  std::vector<EngineMask> users(p.cores);
  std::vector<int> depth(p.cores);  // of loops whose number of iterations a register holds, and what is inside them
  bool any = false;
  for (KernelInsn& w : kernel.insns) {
    const bool counted = begins_loop(w) && p.operands[w.operand].kind == OperandKind::reg;
    if (begins_loop(w) && (counted || depth[w.core])) ++depth[w.core];
    if (counted) users[w.core] |= arch::kSync;
    if (ends_loop(w) && depth[w.core]) --depth[w.core];
    if (begins_loop(w) || ends_loop(w)) continue;
    if (makes_register(w)) {
      any = true;
      continue;
    }
    if (!depth[w.core] && !reads_register(p, w)) continue;
    w.engines = decided(w.engines);
    users[w.core] |= w.engines;
  }
  if (!any) return;
  std::vector<KernelInsn> out;
  std::vector<uint32_t> moved(kernel.insns.size());
  for (size_t i = 0; i < kernel.insns.size(); ++i) {
    KernelInsn w = kernel.insns[i];
    if (makes_register(w)) {
      for (int e = 0; e < kEngines; ++e)
        if (users[w.core] & (1 << e)) {
          w.engines = static_cast<EngineMask>(1 << e);
          out.push_back(w);
        }
    } else {
      out.push_back(w);
    }
    moved[i] = static_cast<uint32_t>(out.empty() ? 0 : out.size() - 1);
  }
  for (uint32_t& id : kernel.afters) id = moved[id];
  kernel.insns = std::move(out);
}

}  // namespace trine::compile

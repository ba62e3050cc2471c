// Rows' costs in nanoseconds; see cost.h. The formulas are those of arch/rates.h.
#include "compile/stream/cost.h"

#include <algorithm>

#include "arch/rates.h"

namespace trine::compile {

using arch::Chip;
using arch::Engine;

namespace {

void add_transfer(Cost& cost, const Chip& chip, const arch::Call& call) {
  const arch::Transfer t = arch::describe_transfer(chip, call);
  for (const auto& share : t.shares)
    cost.dma[static_cast<size_t>(share.engine % kDmaEnginesMax)] += arch::share_ns(chip, t, share);
  const auto asked = call.info.attr("dge") < 0 ? arch::Dge::none : call.as<arch::Dge>("dge");
  const arch::Dge dge = arch::dge_of(chip, call.engine, asked);
  const arch::TransferRate rate = arch::rate_of(chip, t, dge);
  cost.stack = rate.stack_ns;
  cost.issue = rate.issue_ns;
  cost.start = rate.start_ns;
  cost.hardware = dge == arch::Dge::hwdge;
  if (dge == arch::Dge::swdge) {  // GpSimd writes the descriptors itself
    cost.interval = std::max(cost.interval, cost.issue);
    cost.start = std::max(cost.start, cost.issue);
  }
  cost.latency = chip.dma.completion_ns;
}

// NeuronCore-v2 lets Vector and GpSimd not touch SBUF together, nor Vector and Scalar PSUM; from v3 on only Vector's
// fast modes borrow GpSimd's SBUF port.
void add_ports(Cost& cost, const arch::Call& call, Engine e, bool fast) {
  const bool shared = call.chip.has(arch::Feature::shared_ports);
  const bool sbuf = e == Engine::gpsimd || (e == Engine::vector && (shared || fast));
  const bool psum = shared && (e == Engine::vector || e == Engine::scalar);
  for (size_t s = 0; s < call.info.slots.size(); ++s) {
    const arch::Operand& o = call.program.operands[call.insn.operand + s];
    if (o.kind != arch::OperandKind::tile) continue;
    cost.sbuf |= sbuf && call.program.tensors[o.tensor].space == arch::Space::sbuf;
    cost.psum |= psum && call.program.tensors[o.tensor].space == arch::Space::psum;
  }
}

}  // namespace

Costs::Costs(Kernel& kernel) : kernel_(kernel) {
  std::unordered_map<std::string, uint32_t> known;
  shape_.reserve(kernel.insns.size());
  for (const KernelInsn& w : kernel.insns) {
    const auto [it, fresh] = known.try_emplace(key_of(w), static_cast<uint32_t>(known.size()));
    shape_.push_back(it->second);
    if (!fresh) continue;
    for (int e = 0; e < kEngines; ++e)
      table_.push_back(w.engines & (1 << e) ? measure(w, static_cast<Engine>(e)) : Cost());
  }
}

std::vector<double> Costs::elapsed(int core) const {
  std::array<double, kEngines> busy{};
  std::array<double, kDmaEnginesMax> dma{};
  double most = 0;
  std::vector<double> out;
  out.reserve(shape_.size());
  for (uint32_t w = 0; w < shape_.size(); ++w) {
    out.push_back(most);
    const KernelInsn& kernel_insn = kernel_.insns[w];
    if (kernel_insn.core != core || !kernel_insn.engines) continue;
    Engine best = only_engine(kernel_insn.engines);
    for (int e = 0; e < kEngines; ++e)
      if (kernel_insn.engines & (1 << e) && of(w, static_cast<Engine>(e)).interval < of(w, best).interval)
        best = static_cast<Engine>(e);
    const Cost& c = of(w, best);
    most = std::max(most, busy[static_cast<size_t>(best)] += c.interval);
    for (size_t k = 0; k < dma.size(); ++k) most = std::max(most, dma[k] += c.dma[k]);
  }
  return out;
}

double Costs::busiest() const {
  std::array<double, kEngines + kDmaEnginesMax> busy{};
  for (uint32_t w = 0; w < shape_.size(); ++w) {
    const arch::EngineMask open = kernel_.insns[w].engines;
    if (!open) continue;
    const Cost& c = of(w, only_engine(open));
    if (!(open & (open - 1))) busy[static_cast<size_t>(only_engine(open))] += c.interval;
    for (size_t k = 0; k < c.dma.size(); ++k) busy[kEngines + k] += c.dma[k];
  }
  return *std::max_element(busy.begin(), busy.end());
}

// Everything a cost may look at: no cost looks at where in its memory a tile lies.
std::string Costs::key_of(const KernelInsn& w) const {
  std::string key;
  const auto add = [&](auto v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
  add(w.opcode());
  add(w.engines);
  add(w.attr);
  const arch::Program& p = kernel_.program();
  for (size_t s = 0; s < w.info->slots.size(); ++s) {
    const arch::Operand& o = p.operands[w.operand + s];
    add(o.kind);
    add(o.dynamic != 0);
    if (o.kind != arch::OperandKind::tile) continue;
    add(o.pattern);
    add(p.tensors[o.tensor].space);
    add(p.tensors[o.tensor].partition + o.partition);
    if (o.dynamic) add(p.dynamics[o.dynamic - 1].kind);
  }
  return key;
}

Cost Costs::measure(const KernelInsn& w, Engine e) const {
  const Chip& chip = *kernel_.chip;
  arch::Insn insn;
  insn.opcode = w.opcode();
  insn.operand = w.operand;
  insn.attr = w.attr;
  const arch::Call call{kernel_.program(), chip, insn, *w.info, e, w.core};
  const arch::Cost cycles = w.info->row->cycles(chip, call);
  const arch::EngineClock clock = arch::clock_of(chip, e);
  Cost cost;
  cost.interval = static_cast<double>(cycles.cycles) / clock.ghz;
  cost.latency = clock.latency_cycles / clock.ghz;
  cost.load = static_cast<double>(cycles.load) / clock.ghz;
  cost.table = cycles.table;
  if (w.unit() == arch::Unit::queue)
    add_transfer(cost, chip, call);
  else
    add_ports(cost, call, e, cycles.fast);
  return cost;
}

}  // namespace trine::compile

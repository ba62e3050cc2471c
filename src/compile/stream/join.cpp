// Stores in program order, each behind what it needs, found depth first; see join.h. Who needs whom is asked of whole
// tensors: a reader needs their last writer, a writer their readers and writer before.
#include "compile/stream/join.h"

#include <algorithm>

#include "base/text.h"
#include "compile/stream/dependences.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

class Joiner {
 public:
  explicit Joiner(Kernel& kernel) : kernel_(kernel), program_(kernel.program()) {}

  void run() {
    const int64_t before = most_held(kernel_);
    if (before <= kernel_.chip->sbuf.bytes_per_partition || !may_move()) return;
    link();
    const std::vector<uint32_t> joined = order();
    const std::vector<KernelInsn> insns = std::move(kernel_.insns);
    kernel_.insns.clear();
    for (const uint32_t w : joined) kernel_.insns.push_back(insns[w]);
    const int64_t after = most_held(kernel_);
    if (after >= before) {
      kernel_.insns = insns;
      return;
    }
    kernel_.messages.push_back(cat("joined: loops would pass ", before,
                                   " bytes per partition to each other; as one they hold ", after,
                                   ", as Neuron's tensorizer does"));
  }

 private:
  // Bytes per partition of SBUF that live at once.
  static int64_t most_held(Kernel& kernel) {
    std::vector<std::pair<uint32_t, int64_t>> changes;
    for (const LiveRange& r : live_ranges_of(kernel)) {
      if (!r.used() || kernel.program().tensors[r.tensor].space != Space::sbuf) continue;
      changes.emplace_back(r.first, r.bytes);
      changes.emplace_back(r.last + 1, -r.bytes);
    }
    std::sort(changes.begin(), changes.end());
    int64_t now = 0, most = 0;
    for (const auto& [at, bytes] : changes) most = std::max(most, now += bytes);
    return most;
  }

  bool may_move() const {
    return std::none_of(kernel_.insns.begin(), kernel_.insns.end(), [&](const KernelInsn& w) {
      bool fixed = is_fence(w) || w.afters || w.fixed_order || w.unit() == arch::Unit::rendezvous ||
                   keeps_sum(program_, w) || keeps_random(w);
      for (size_t s = 0; s < w.info->slots.size(); ++s)
        fixed |= program_.operands[w.operand + s].kind == OperandKind::reg;
      return fixed;
    });
  }

  void link() {
    const size_t tensors = program_.tensors.size();
    std::vector<uint32_t> writer(tensors, kNoInsn);
    std::vector<std::vector<uint32_t>> readers(tensors);  // since it was written
    needs_.resize(kernel_.insns.size());
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      const KernelInsn& insn = kernel_.insns[w];
      std::vector<uint32_t>& needs = needs_[w];
      const auto storage = [&](uint32_t t) {
        return program_.tensors[t].alias < 0 ? t : static_cast<uint32_t>(program_.tensors[t].alias);
      };
      over_tensors(program_, insn, [&](uint32_t t) {
        if (writer[storage(t)] != kNoInsn) needs.push_back(writer[storage(t)]);
      });
      for (const bool writes : {true, false})
        for (size_t s = 0; s < insn.info->slots.size(); ++s) {
          const Operand& o = program_.operands[insn.operand + s];
          if (o.kind != OperandKind::tile || insn.info->slots[s].writes() != writes) continue;
          const uint32_t t = storage(o.tensor);
          if (!writes) {
            readers[t].push_back(w);
            continue;
          }
          for (const uint32_t r : readers[t])
            if (r != w) needs.push_back(r);
          readers[t].clear();
          writer[t] = w;
        }
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    }
  }

  bool leaves(uint32_t w) const {
    const KernelInsn& insn = kernel_.insns[w];
    for (size_t s = 0; s < insn.info->slots.size(); ++s) {
      const Operand& o = program_.operands[insn.operand + s];
      if (o.kind == OperandKind::tile && insn.info->slots[s].writes() && program_.tensors[o.tensor].space == Space::hbm)
        return true;
    }
    return false;
  }

  std::vector<uint32_t> order() {
    std::vector<uint32_t> stores;
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w)
      if (leaves(w)) stores.push_back(w);
    std::vector<uint32_t> out;
    std::vector<char> done(needs_.size());
    for (const uint32_t w : stores) add(w, done, out);
    for (uint32_t w = 0; w < needs_.size(); ++w) add(w, done, out);
    return out;
  }

  void add(uint32_t root, std::vector<char>& done, std::vector<uint32_t>& out) const {
    std::vector<std::pair<uint32_t, size_t>> open{{root, 0}};  // and the next of what it needs
    while (!open.empty()) {
      auto& [w, next] = open.back();
      if (!done[w] && next < needs_[w].size()) {
        const uint32_t needed = needs_[w][next++];
        if (!done[needed]) open.emplace_back(needed, 0);
        continue;
      }
      if (!done[w]) done[w] = 1, out.push_back(w);
      open.pop_back();
    }
  }

  Kernel& kernel_;
  const arch::Program& program_;
  std::vector<std::vector<uint32_t>> needs_;  // of each instruction: earlier ones
};

}  // namespace

void join_loops(Kernel& kernel) { Joiner(kernel).run(); }

}  // namespace trine::compile

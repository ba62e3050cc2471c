// A sum is a run of multiplies into one tile; sums of a group have instructions between them that only read those
// before, and go behind the group: copies of what was summed, but also multiplies by other tiles, such as a low-rank
// product that is added. See interleave.h.
#include "compile/stream/interleave.h"

#include <algorithm>

#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;

namespace {

constexpr uint32_t kBetweenMax = 8;  // instructions between two sums of a group

struct Sum {
  uint32_t begin = 0, end = 0;
  uint32_t size() const { return end - begin; }
};

class Interleaver {
 public:
  explicit Interleaver(Kernel& kernel) : kernel_(kernel), program_(kernel.program()) {}

  void run() {
    std::vector<uint32_t> order;
    order.reserve(kernel_.insns.size());
    bool changed = false;
    for (uint32_t w = 0; w < kernel_.insns.size();) {
      const std::vector<Sum> group = group_at(w);
      if (group.size() < 2) {
        order.push_back(w++);
        continue;
      }
      changed = true;
      for (uint32_t i = 0; i < group[0].size(); ++i)
        for (const Sum& s : group) order.push_back(s.begin + i);
      for (size_t s = 0; s + 1 < group.size(); ++s)
        for (w = group[s].end; w < group[s + 1].begin; ++w) order.push_back(w);
      w = group.back().end;
    }
    if (changed) apply(order);
  }

 private:
  const Operand& operand(uint32_t w, std::string_view slot) const {
    const KernelInsn& insn = kernel_.insns[w];
    return program_.operands[insn.operand + static_cast<size_t>(insn.info->slot(slot))];
  }
  static bool same(const Operand& a, const Operand& b) {
    return a.kind == b.kind && a.tensor == b.tensor && a.pattern == b.pattern && a.offset == b.offset &&
           a.partition == b.partition && a.dynamic == b.dynamic;
  }
  bool free_to_move(uint32_t w) const {
    const KernelInsn& insn = kernel_.insns[w];
    return !is_fence(insn) && !insn.afters && !insn.fixed_order && insn.unit() != arch::Unit::rendezvous;
  }

  Sum sum_at(uint32_t begin) const {
    Sum s{begin, begin};
    while (s.end < kernel_.insns.size() && kernel_.insns[s.end].info->row->name == "nc_matmul" && free_to_move(s.end) &&
           kernel_.insns[s.end].core == kernel_.insns[begin].core && same(operand(s.end, "dst"), operand(begin, "dst")))
      ++s.end;
    return s;
  }

  // Sums of as many multiplies by the same stationary tiles, as many as leave PSUM room for the next group.
  std::vector<Sum> group_at(uint32_t begin) const {
    std::vector<Sum> group{sum_at(begin)};
    if (group[0].size() < 2) return {};
    const int64_t room = kernel_.chip->psum.banks * kernel_.chip->psum.bank_bytes / 2;
    const int64_t bytes = arch::bytes_per_partition(program_.tensors[operand(begin, "dst").tensor]);
    while (int64_t(group.size() + 1) * bytes <= room) {
      const Sum s = next_of(group);
      if (s.size() == 0) break;
      group.push_back(s);
    }
    return group;
  }

  // The first sum not far behind the group that may join it; empty if there is none.
  Sum next_of(const std::vector<Sum>& group) const {
    const uint32_t from = group.back().end;
    for (uint32_t w = from; w < kernel_.insns.size() && w - from <= kBetweenMax && free_to_move(w); ++w) {
      if (kernel_.insns[w].info->row->name != "nc_matmul") continue;
      const Sum s = sum_at(w);
      if (s.size() == group[0].size() && may_join(group, s)) return s;
    }
    return {};
  }

  bool may_join(const std::vector<Sum>& group, const Sum& next) const {
    for (uint32_t i = 0; i < next.size(); ++i)
      if (!same(operand(group[0].begin + i, "stationary"), operand(next.begin + i, "stationary"))) return false;
    const uint32_t into = operand(next.begin, "dst").tensor;
    for (uint32_t w = group[0].begin; w < next.begin; ++w) {
      bool apart = true;
      over_tensors(program_, kernel_.insns[w], [&](uint32_t t) { apart &= t != into; });
      const KernelInsn& insn = kernel_.insns[w];
      for (size_t s = 0; s < insn.info->slots.size(); ++s) {
        const Operand& o = program_.operands[insn.operand + s];
        if (o.kind != arch::OperandKind::tile || !insn.info->slots[s].writes()) continue;
        for (uint32_t n = next.begin; n < next.end; ++n)
          over_tensors(program_, kernel_.insns[n], [&](uint32_t t) { apart &= t != o.tensor; });
      }
      if (!apart) return false;
    }
    return true;
  }

  void apply(const std::vector<uint32_t>& order) {
    const std::vector<KernelInsn> before = std::move(kernel_.insns);
    std::vector<uint32_t> moved(before.size());
    kernel_.insns.clear();
    for (const uint32_t w : order) {
      moved[w] = static_cast<uint32_t>(kernel_.insns.size());
      kernel_.insns.push_back(before[w]);
    }
    for (uint32_t& id : kernel_.afters) id = moved[id];
  }

  Kernel& kernel_;
  const arch::Program& program_;
};

}  // namespace

void interleave_sums(Kernel& kernel) { Interleaver(kernel).run(); }

}  // namespace trine::compile

// Loops from the inside out; of each the instructions that may go, then the tiles that there is room for, then what
// those need. See hoist.h.
#include "compile/stream/hoist.h"

#include <algorithm>
#include <utility>

#include "compile/stream/dependences.h"
#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

constexpr uint64_t kLooksMax = 1 << 26;  // instructions times loops: all instructions are looked at for each loop

// One loop of a kernel: instructions (begin, end) are its body.
class Loop {
 public:
  Loop(Kernel& kernel, uint32_t begin, uint32_t end, size_t depth)
      : kernel_(kernel), program_(kernel.program()), begin_(begin), end_(end), depth_(depth) {}

  bool run() {
    note_uses();
    goes_.assign(end_ - begin_, 0);
    int inner = 0;
    for (uint32_t w = begin_ + 1; w < end_; ++w) {
      const KernelInsn& insn = kernel_.insns[w];
      if (insn.core != kernel_.insns[begin_].core) return false;  // bodies of several cores lie in each other
      if (ends_loop(insn)) --inner;
      goes_[w - begin_] = inner == 0 && may_go(insn);
      if (begins_loop(insn)) ++inner;
    }
    settle();
    choose();
    settle();
    keep_needed();
    return move();
  }

 private:
  struct Use {
    uint32_t first = kNoInsn, last = 0;              // of all instructions
    bool written = false;                            // in the body
    bool stays = false;                              // some instruction that writes it in the body stays there
    uint32_t first_write = kNoInsn, last_write = 0;  // in the body
    uint32_t first_stay = kNoInsn;                   // the first instruction of the body that reads it and stays
    bool chosen = true, needed = false;
  };

  uint32_t storage(uint32_t tensor) const {
    const int32_t alias = program_.tensors[tensor].alias;
    return alias < 0 ? tensor : static_cast<uint32_t>(alias);
  }
  bool on_chip(uint32_t tensor) const { return program_.tensors[tensor].space != Space::hbm; }
  // Calls f(tensor, it is written) for each tile of an instruction.
  template <class F>
  void over_tiles(const KernelInsn& w, F f) const {
    for (size_t s = 0; s < w.info->slots.size(); ++s) {
      const Operand& o = program_.operands[w.operand + s];
      if (o.kind != OperandKind::tile) continue;
      if (w.info->slots[s].writes()) f(storage(o.tensor), true);
      if (w.info->slots[s].mode != arch::Mode::write) f(storage(o.tensor), false);
      if (o.dynamic && program_.dynamics[o.dynamic - 1].kind != arch::DynamicKind::reg)
        f(storage(program_.operands[program_.dynamics[o.dynamic - 1].index].tensor), false);
    }
  }

  void note_uses() {
    uses_.assign(program_.tensors.size(), {});
    const bool alone = program_.cores == 1;
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      const bool inside = w > begin_ && w < end_;
      over_tiles(kernel_.insns[w], [&](uint32_t t, bool write) {
        Use& u = uses_[t];
        u.first = std::min(u.first, w);
        u.last = w;
        if (!write || !(inside || (!alone && !on_chip(t)))) return;
        u.written = true;
        u.first_write = std::min(u.first_write, w);
        u.last_write = w;
      });
    }
  }

  // By itself: pure, of the body alone, and the same in every iteration.
  bool may_go(const KernelInsn& w) const {
    if (w.afters || w.fixed_order || is_fence(w) || w.unit() == arch::Unit::rendezvous || keeps_sum(program_, w) ||
        keeps_random(w))
      return false;
    bool goes = false;
    for (size_t s = 0; s < w.info->slots.size(); ++s) {
      const Operand& o = program_.operands[w.operand + s];
      const arch::OperandSlot& slot = w.info->slots[s];
      if (o.kind == OperandKind::reg || slot.mode == arch::Mode::may_write) return false;
      if (o.kind != OperandKind::tile) continue;
      if (o.dynamic || program_.patterns[o.pattern].step[depth_] != 0) return false;
      if (!slot.writes()) continue;
      const Use& u = uses_[o.tensor];
      if (!on_chip(o.tensor) || program_.tensors[o.tensor].alias >= 0 || kernel_.origins[o.tensor].fixed_address ||
          u.first <= begin_)
        return false;
      goes = true;
    }
    return goes;
  }

  // What depends on instructions that stay, stays.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Use& u : uses_) u.stays = false, u.first_stay = kNoInsn;
      for (uint32_t w = begin_ + 1; w < end_; ++w) {
        if (goes(w)) continue;
        over_tiles(kernel_.insns[w], [&](uint32_t t, bool write) {
          if (write)
            uses_[t].stays = true;
          else
            uses_[t].first_stay = std::min(uses_[t].first_stay, w);
        });
      }
      for (uint32_t w = begin_ + 1; w < end_; ++w) {
        if (!goes(w)) continue;
        bool can = true;
        over_tiles(kernel_.insns[w], [&](uint32_t t, bool write) { can = can && settled(t, w, write); });
        if (can) continue;
        goes_[w - begin_] = 0;
        changed = true;
      }
    }
  }
  bool settled(uint32_t t, uint32_t w, bool write) const {
    const Use& u = uses_[t];
    if (!u.written) return true;
    if (u.stays || !u.chosen || !on_chip(t)) return false;  // in HBM another core may write it
    // Read before it is written, it would be what the iteration before left.
    if (u.first_stay < u.last_write || (!write && w < u.first_write)) return false;
    return u.first_stay == kNoInsn || program_.tensors[t].space == Space::sbuf;
  }

  // Tiles that would lie on chip all the time: as many as leave the body twice what it holds at once.
  void choose() {
    const int64_t room = kernel_.chip->sbuf.bytes_per_partition - held();
    int64_t taken = 0;
    for (uint32_t t = 0; t < uses_.size(); ++t) {
      Use& u = uses_[t];
      if (!stands_by(t)) continue;
      const int64_t bytes = arch::bytes_per_partition(program_.tensors[t]);
      u.chosen = taken + bytes <= room;
      if (u.chosen) taken += bytes;
    }
  }
  // Made before the loop and read in it.
  bool stands_by(uint32_t t) const {
    const Use& u = uses_[t];
    return u.written && !u.stays && u.chosen && u.first_stay != kNoInsn && program_.tensors[t].space == Space::sbuf;
  }
  // Bytes of a partition: what passes through the loop, and twice the most that the body's own tiles take at once.
  int64_t held() const {
    int64_t across = 0, now = 0, most = 0;
    std::vector<std::pair<uint32_t, int64_t>> changes;
    for (uint32_t t = 0; t < uses_.size(); ++t) {
      const Use& u = uses_[t];
      const arch::Tensor& tensor = program_.tensors[t];
      const bool used_in_loop = u.first != kNoInsn && u.first < end_ && u.last > begin_;
      if (!used_in_loop || tensor.space != Space::sbuf || stands_by(t)) continue;
      const int64_t bytes = arch::bytes_per_partition(tensor);
      if (u.first < begin_ || u.last > end_) {
        across += bytes;
      } else {
        changes.emplace_back(u.first, bytes);
        changes.emplace_back(u.last + 1, -bytes);
      }
    }
    std::sort(changes.begin(), changes.end());
    for (const auto& [at, bytes] : changes) most = std::max(most, now += bytes);
    return across + 2 * most;
  }

  // Instructions whose results nobody in the loop reads stay where they are.
  void keep_needed() {
    for (uint32_t t = 0; t < uses_.size(); ++t) uses_[t].needed = stands_by(t);
    for (uint32_t w = end_ - 1; w > begin_; --w) {
      if (!goes(w)) continue;
      bool needed = false;
      over_tiles(kernel_.insns[w], [&](uint32_t t, bool write) { needed = needed || (write && uses_[t].needed); });
      goes_[w - begin_] = needed;
      if (!needed) continue;
      over_tiles(kernel_.insns[w], [&](uint32_t t, bool) { uses_[t].needed = true; });
    }
  }

  bool move() {
    const auto moving = static_cast<uint32_t>(std::count(goes_.begin(), goes_.end(), 1));
    if (!moving) return false;
    std::vector<uint32_t> position(end_ - begin_);
    uint32_t ahead = begin_, behind = begin_ + moving;
    const std::vector<KernelInsn> before(kernel_.insns.begin() + begin_, kernel_.insns.begin() + end_);
    for (uint32_t i = 0; i < before.size(); ++i) {
      position[i] = goes_[i] ? ahead++ : behind++;
      kernel_.insns[position[i]] = before[i];
    }
    for (uint32_t& id : kernel_.afters)
      if (id >= begin_ && id < end_) id = position[id - begin_];
    return true;
  }
  bool goes(uint32_t w) const { return goes_[w - begin_] != 0; }

  Kernel& kernel_;
  const arch::Program& program_;
  const uint32_t begin_, end_;
  const size_t depth_;
  std::vector<Use> uses_;
  std::vector<char> goes_;  // of the instructions from begin on
};

}  // namespace

bool hoist_from_loops(Kernel& kernel) {
  const auto loops = static_cast<uint64_t>(std::count_if(kernel.insns.begin(), kernel.insns.end(), arch::begins_loop));
  if (loops == 0 || loops * kernel.insns.size() > kLooksMax) return false;
  bool moved = false;
  std::vector<std::vector<uint32_t>> open(kernel.program().cores);
  for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
    std::vector<uint32_t>& mine = open[kernel.insns[w].core];
    if (begins_loop(kernel.insns[w])) mine.push_back(w);
    if (!ends_loop(kernel.insns[w])) continue;
    const uint32_t begin = mine.back();
    mine.pop_back();
    moved = Loop(kernel, begin, w, mine.size()).run() || moved;
  }
  return moved;
}

}  // namespace trine::compile

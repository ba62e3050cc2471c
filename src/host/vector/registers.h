// Which of sixteen vector registers holds which value along a straight list of vector code.
// Evicts what is used last; a value that was evicted stays in its spill slot, since values never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trine::host {

inline constexpr int kNoRegister = -1;

// Positions count the list's items. Every value is defined once.
class Registers {
 public:
  // uses[v]: the positions that read v, in order. Only registers 0 to `count` - 1 are handed out.
  Registers(std::vector<std::vector<uint32_t>> uses, int count)
      : uses_(std::move(uses)),
        next_(uses_.size(), 0),
        where_(uses_.size(), kNoRegister),
        spill_(uses_.size(), kNoRegister),
        holds_(size_t(count), kFree),
        locked_(size_t(count), false) {}

  int where(uint32_t v) const { return where_[v]; }
  int spill(uint32_t v) const { return spill_[v]; }
  int spill_count() const { return int(spill_in_use_.size()); }

  void lock(int r) { locked_[size_t(r)] = true; }
  void unlock_all() { locked_.assign(locked_.size(), false); }

  // Steps past position p: what is not read any more frees its register.
  void finish_uses(uint32_t v, uint32_t p) {
    while (next_[v] < uses_[v].size() && uses_[v][next_[v]] <= p) ++next_[v];
    if (next_[v] == uses_[v].size()) release(v);
  }
  bool ends(uint32_t v, uint32_t p) const { return uses_[v].empty() || uses_[v].back() <= p; }
  void release(uint32_t v) {
    if (where_[v] != kNoRegister) holds_[size_t(where_[v])] = kFree;
    if (spill_[v] != kNoRegister) spill_in_use_[size_t(spill_[v])] = false;
    where_[v] = spill_[v] = kNoRegister;
  }
  void assign(uint32_t v, int r) {
    where_[v] = r;
    holds_[size_t(r)] = v;
  }

  struct Taken {
    int reg = kNoRegister;
    int save_to = kNoRegister;  // spill slot: store the register there before it is overwritten
  };
  // A register for v, or for nobody (kFree): free, or that of the value read last.
  Taken take(uint32_t v) {
    Taken t;
    uint32_t farthest = 0;
    for (size_t r = 0; r < holds_.size(); ++r) {
      if (locked_[r]) continue;
      if (holds_[r] == kFree) {
        t.reg = int(r);
        break;
      }
      uint32_t held = holds_[r], when = next_[held] < uses_[held].size() ? uses_[held][next_[held]] : UINT32_MAX;
      if (t.reg == kNoRegister || when > farthest) t.reg = int(r), farthest = when;
    }
    if (t.reg == kNoRegister) return t;
    if (uint32_t old = holds_[size_t(t.reg)]; old != kFree) {
      t.save_to = evict(old);
      where_[old] = kNoRegister;
    }
    holds_[size_t(t.reg)] = v;
    if (v != kFree) where_[v] = t.reg;
    return t;
  }
  // All values out of registers, for a call: (register, spill slot) to store.
  std::vector<std::pair<int, int>> take_all() {
    std::vector<std::pair<int, int>> out;
    for (size_t r = 0; r < holds_.size(); ++r) {
      uint32_t v = holds_[r];
      if (v == kFree) continue;
      if (int slot = evict(v); slot != kNoRegister) out.emplace_back(int(r), slot);
      where_[v] = kNoRegister;
      holds_[r] = kFree;
    }
    return out;
  }

  static constexpr uint32_t kFree = UINT32_MAX;

 private:
  // The slot to store v to, or kNoRegister where it is there already.
  int evict(uint32_t v) {
    if (spill_[v] != kNoRegister) return kNoRegister;
    size_t s = 0;
    while (s < spill_in_use_.size() && spill_in_use_[s]) ++s;
    if (s == spill_in_use_.size()) spill_in_use_.push_back(false);
    spill_in_use_[s] = true;
    return spill_[v] = int(s);
  }

  std::vector<std::vector<uint32_t>> uses_;
  std::vector<size_t> next_;
  std::vector<int> where_, spill_;
  std::vector<uint32_t> holds_;
  std::vector<bool> locked_, spill_in_use_;
};

}  // namespace trine::host

// FreeSpace: the free and taken bytes of one memory of one core, the same in every partition. Knows no time: who takes
// and gives back in which order is allocate.cpp's and spill.cpp's. Tensors with an address of the user's are obstacles
// for as long as they live.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compile/stream/kernel.h"

namespace trine::compile {

inline constexpr uint32_t kNoInsn = UINT32_MAX;

// A tensor on chip, from the first instruction that uses it to the last. A loop counts as one instruction, since what
// an iteration leaves the next may read; but for tiles that every iteration writes anew.
struct LiveRange {
  uint32_t tensor = 0;
  uint32_t first = kNoInsn, last = 0;
  int64_t bytes = 0;  // per partition

  bool used() const { return first != kNoInsn; }
  bool meets(const LiveRange& o) const { return first <= o.last && o.first <= last; }
};
std::vector<LiveRange> live_ranges_of(Kernel& kernel);  // of every tensor
// Calls f(tensor) for every tensor that an instruction names, index tiles included.
template <class F>
void over_tensors(const arch::Program& p, const KernelInsn& w, F f) {
  for (size_t s = 0; s < w.info->slots.size(); ++s) {
    const arch::Operand& o = p.operands[w.operand + s];
    if (o.kind != arch::OperandKind::tile) continue;
    f(o.tensor);
    if (o.dynamic && p.dynamics[o.dynamic - 1].kind != arch::DynamicKind::reg)
      f(p.operands[p.dynamics[o.dynamic - 1].index].tensor);
  }
}

class FreeSpace {
 public:
  struct Taken {
    int64_t high = 0;
    uint32_t tensor = 0;
  };

  // Addresses are multiples of `step`; what fits into a bank stays inside one.
  FreeSpace(int64_t limit, int64_t step, int64_t bank = 0) : limit_(limit), step_(step), bank_(bank) {}
  static FreeSpace of(const arch::Chip& chip, arch::Space space);  // in PSUM several tensors may share a bank

  void shrink(int64_t limit) { limit_ = limit; }
  void fix(const LiveRange& range, int64_t address) { fixed_.push_back({range, address}); }
  // The first free address from `from` on, or -1.
  int64_t find(const LiveRange& range, int64_t from) const;
  // The last free address, or -1.
  int64_t find_last(const LiveRange& range) const;
  // The first after what was put last, then from the beginning.
  int64_t find_next(const LiveRange& range) const;
  void put(const LiveRange& range, int64_t address);
  void put_apart(const LiveRange& range, int64_t address) { taken_[address] = {address + range.bytes, range.tensor}; }
  void free(int64_t address) { taken_.erase(address); }
  void rewind() { cursor_ = 0; }

  const std::map<int64_t, Taken>& taken() const { return taken_; }
  // `at`, or the end of a tensor of fixed address that overlaps there.
  int64_t past_fixed(const LiveRange& range, int64_t at) const;
  std::vector<LiveRange> fixed_at(uint32_t insn) const;
  int64_t align(int64_t at, int64_t bytes) const;
  int64_t limit() const { return limit_; }

 private:
  struct Fixed {
    LiveRange range;
    int64_t address = 0;
  };

  int64_t limit_, step_, bank_;
  int64_t cursor_ = 0;
  std::map<int64_t, Taken> taken_;  // by address
  std::vector<Fixed> fixed_;
};

}  // namespace trine::compile

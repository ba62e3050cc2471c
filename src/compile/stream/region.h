// Region: the bytes that an operand touches, as a hull with a comb inside, and Touched: who touched which bytes of one
// memory since they were last overwritten. Exact for dense tiles and for combs of the same pitch; else it errs towards
// overlap, which costs time and never a value.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/program.h"
#include "arch/verify.h"

namespace trine::compile {

// Bytes [low, high) of partitions [first, last); of each `pitch` bytes counted from low only the first `run`.
// pitch 0: all of them.
struct Region {
  int64_t low = 0, high = 0;
  int32_t first = 0, last = 1;
  int64_t pitch = 0, run = 0;
  uint32_t shape = 0;  // of two combs with the same hull, equal shapes are equal regions

  bool dense() const { return pitch == 0; }
};

// On chip bytes are counted in the partition, in HBM in the tensor. Over every iteration of the loops around it; an
// address that data decides covers the whole tensor.
Region region_of(const arch::Program& p, const arch::Operand& o, const arch::LoopNest& loops);
bool overlap(const Region& a, const Region& b);
bool covers(const Region& a, const Region& b);

// Cells of a fixed number of bytes; a cell lists the regions that were written and read since it was overwritten.
class Touched {
 public:
  Touched(int64_t bytes, int cells_max);

  // Calls f(who, it was a read) for each earlier access that this one must come after; the same may come twice.
  template <class F>
  void touch(const Region& r, const std::vector<int64_t>& cells, bool write, uint32_t who, F f) {
    const auto entry = static_cast<uint32_t>(entries_.size());
    entries_.push_back({r, who});
    for (const int64_t c : cells) {
      Cell& cell = cells_[static_cast<size_t>(c)];
      visit(cell.writes, entry, c, write, [&](uint32_t earlier) { f(earlier, false); });
      if (!write) {
        cell.reads.push_back(entry);
        continue;
      }
      visit(cell.reads, entry, c, true, [&](uint32_t earlier) { f(earlier, true); });
      cell.writes.push_back(entry);
    }
  }
  int64_t cell_bytes() const { return int64_t{1} << shift_; }
  void cells_between(int64_t low, int64_t high, std::vector<int64_t>& out) const;

 private:
  struct Entry {
    Region region;
    uint32_t who = 0;
  };
  struct Cell {
    std::vector<uint32_t> writes, reads;
  };

  // Reports what overlaps; drops what a write covers within the cell.
  template <class F>
  void visit(std::vector<uint32_t>& list, uint32_t entry, int64_t cell, bool drop, F f) {
    size_t kept = 0;
    for (const uint32_t old : list) {
      const bool hit = overlap(entries_[old].region, entries_[entry].region);
      if (hit) f(entries_[old].who);
      if (!(hit && drop && covers_in_cell(entries_[entry].region, entries_[old].region, cell))) list[kept++] = old;
    }
    list.resize(kept);
  }
  bool covers_in_cell(const Region& a, const Region& b, int64_t cell) const;

  int shift_ = 0;
  std::vector<Cell> cells_;
  std::vector<Entry> entries_;
};

}  // namespace trine::compile

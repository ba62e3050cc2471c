// Region: the bytes that an operand touches, as a hull with a comb inside, and Touched: who touched which bytes of one
// memory since they were last overwritten. Exact for dense tiles and for combs of the same pitch; else it errs towards
// overlap, which costs time and never a value.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "arch/program/program.h"
#include "arch/program/verify.h"

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
inline bool overlap(const Region& a, const Region& b) {
  if (a.low >= b.high || b.low >= a.high || a.first >= b.last || b.first >= a.last) return false;
  const int64_t pitch = a.pitch == b.pitch ? a.pitch : std::gcd(a.pitch, b.pitch);
  if (!pitch) return true;
  const int64_t a_run = a.dense() ? a.high - a.low : a.run, b_run = b.dense() ? b.high - b.low : b.run;
  const int64_t apart = ((b.low - a.low) % pitch + pitch) % pitch;
  return apart < a_run || apart + b_run > pitch;
}

inline bool covers(const Region& a, const Region& b) {
  if (a.first > b.first || a.last < b.last || a.low > b.low || a.high < b.high) return false;
  return a.dense() || (a.low == b.low && a.high == b.high && a.shape == b.shape);
}

// Cells of a fixed number of bytes; a cell lists the regions that were written and read since it was overwritten. Cells
// that were touched alike have one list between them, so that a tile of many rows is looked at once.
class Touched {
 public:
  struct Range {  // of cells, both ends included
    int64_t first = 0, last = 0;
  };
  using Ranges = std::vector<Range>;
  // Where rows are longer than a cell, each has as many as the other, so that tiles of rows touch all of them alike.
  Touched(int64_t bytes, int cells_max, int64_t row_bytes = 0);

  // Calls f(who, it was a read) for each earlier access that this one must come after; the same may come twice.
  template <class F>
  void touch(const Region& r, const Ranges& ranges, bool write, uint32_t who, F f) {
    entries_.push_back({r, who});
    seen_.push_back(0);
    lone_ = kNone;
    if (!write || !r.dense()) return touch_alike(ranges.data(), ranges.data() + ranges.size(), write, f);
    // What is covered depends on the cell where the region begins or ends inside one.
    for (const Range& all : ranges) {
      Range inner = all;
      const Range first{all.first, all.first}, last{all.last, all.last};
      const bool part_first = r.low > all.first * cell_bytes_, part_last = r.high < (all.last + 1) * cell_bytes_;
      if (part_first) ++inner.first, touch_alike(&first, &first + 1, write, f);
      if (part_last && (!part_first || all.last > all.first)) --inner.last;
      if (inner.first <= inner.last) touch_alike(&inner, &inner + 1, write, f);
      if (inner.last < all.last) touch_alike(&last, &last + 1, write, f);
    }
  }
  int64_t cell_bytes() const { return cell_bytes_; }
  void cells_between(int64_t low, int64_t high, Ranges& out) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    Region region;
    uint32_t who = 0;
  };
  struct List {
    std::vector<uint32_t> writes, reads;
    uint32_t cells = 0;                     // that have it
    uint32_t pass = 0, here = 0, next = 0;  // the last pass that met it, in how many cells, what they have then
    int64_t first = 0;                      // of them
  };

  // The last entry, on cells in each of which it covers the same.
  template <class F>
  void touch_alike(const Range* begin, const Range* end, bool write, F f) {
    bool moved = false;
    find_lists(begin, end);
    for (const uint32_t id : lists_found_) {
      const uint32_t to = target(id);
      List& list = lists_[to];
      visit(list.writes, list.first, write, [&](uint32_t earlier) { f(earlier, false); });
      if (write) visit(list.reads, list.first, true, [&](uint32_t earlier) { f(earlier, true); });
      (write ? list.writes : list.reads).push_back(static_cast<uint32_t>(entries_.size() - 1));
      lists_[id].next = write && list.writes.size() == 1 && list.reads.empty() ? settle(to) : to;
      moved = moved || lists_[id].next != id;
    }
    if (moved) move(begin, end);
  }
  void find_lists(const Range* begin, const Range* end);  // finds the lists of these cells, in their order
  uint32_t target(uint32_t id);  // itself, or a copy for the cells in hand where others have it too
  uint32_t settle(uint32_t id);  // all that hold but this entry become one
  void move(const Range* begin, const Range* end);
  uint32_t fresh();

  // Reports what overlaps; drops what a write covers within the cell.
  template <class F>
  void visit(std::vector<uint32_t>& list, int64_t cell, bool drop, F f) {
    const auto entry = static_cast<uint32_t>(entries_.size() - 1);
    const Region& region = entries_[entry].region;
    const auto hits = [&](uint32_t old) {
      uint32_t& seen = seen_[old];
      if (seen >> 1 == entry) return (seen & 1) != 0;
      const bool hit = overlap(entries_[old].region, region);
      seen = entry << 1 | uint32_t{hit};
      if (hit) f(entries_[old].who);
      return hit;
    };
    if (!drop) {
      for (const uint32_t old : list) hits(old);
      return;
    }
    size_t left = 0;
    for (const uint32_t old : list)
      if (!hits(old) || !covers_in_cell(region, entries_[old].region, cell)) list[left++] = old;
    list.resize(left);
  }
  bool covers_in_cell(const Region& a, const Region& b, int64_t cell) const;

  int64_t cell_bytes_ = 512;
  std::vector<uint32_t> cells_;  // of each its list
  std::vector<List> lists_;
  std::vector<uint32_t> spare_, lists_found_;
  uint32_t pass_ = 0, lone_ = kNone;
  std::vector<Entry> entries_;
  std::vector<uint32_t> seen_;  // of each entry: the last one that met it, times two, and one where they overlap
};

}  // namespace trine::compile

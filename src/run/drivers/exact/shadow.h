// Shadow: who touched which bytes last, and when. Memory is cut into cells of 64 rows × 64 bytes (on chip a row is a
// partition, in HBM 64 neighbouring bytes); within a cell a footprint is a set of rows times a set of bytes, or where
// it is neither a set of bytes for each row, so overlap is exact. An access that is ordered after an older one and
// covers it takes its place; lists stay short.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "arch/core.h"
#include "run/drivers/exact/order.h"

namespace trine::run {

// One access of one instruction, by one thread in one of its periods.
struct Access {
  uint64_t period = 0;
  uint32_t site = 0;  // the instruction, numbered through all streams
  uint16_t thread = 0;
  bool write = false;
  bool operator==(const Access&) const = default;
};

// Two accesses that no semaphore orders, and the first byte they share.
struct Clash {
  Access earlier, later;
  int64_t row = 0;   // partition; 0 in HBM
  int64_t byte = 0;  // in the partition, or in the tensor
};

class Shadow {
 public:
  using OnClash = std::function<void(const Clash&)>;

  // any_row: a tile whose address depends on data touches its whole tensor, as other data might have it.
  Shadow(const arch::Machine& machine, OnClash on_clash, bool any_row);
  // Every row of the tile, and the index tile that addresses it. Rows outside the tensor are left out.
  void touch(arch::Core& core, const arch::Tile& t, const Access& a, const Clock& clock);

 private:
  using Rows = std::array<uint64_t, 64>;  // the bytes of each row
  struct Footprint {                      // in one cell
    uint64_t bytes = 0, rows = 0;         // of all rows, and those that are not empty
    const Rows* each = nullptr;           // where they differ
    uint64_t at(int row) const { return each ? (*each)[static_cast<size_t>(row)] : bytes; }
  };
  struct Entry {
    uint64_t bytes = 0, rows = 0;
    Access access;
    uint32_t next = 0;  // 0 at the end
    uint32_t each = 0;  // in each_ where rows differ, 0 where they do not
  };
  struct Area {                // one memory
    arch::LazyBytes heads;     // uint32_t per cell: its first entry, 0 for none
    int64_t cells_across = 0;  // on chip: cells side by side; 0 in HBM
    arch::LazyBytes found{};   // HBM, uint32_t per cell: 1 + its index among the cells of the access at hand
  };
  struct Piece {  // the same bytes of neighbouring 64-byte blocks
    int64_t block = 0, count = 0;
    uint64_t bytes = 0;
  };
  struct Cell {
    int64_t cell = 0;
    Rows rows{};
  };

  size_t area_of(const arch::Tile& t) const;
  void add_row(const arch::Tile& t, int64_t offset);
  void add_bytes(int64_t begin, int64_t n);
  void add_piece(int64_t block, int64_t count, uint64_t bytes);
  void touch_tensor(size_t area, const arch::Tile& t);
  void flush_chip(size_t area, int first, int count);
  void flush_hbm(size_t area);
  void flush_scattered(size_t area);
  void visit(size_t area, int64_t cell, const Footprint& f);
  void look_at(size_t area, int64_t cell, const Entry& e, const Footprint& f);
  bool grow(Entry& e, const Footprint& f);
  void subtract(Entry& e, const Footprint& f);
  void remember(uint32_t& head, const Footprint& f);
  void forget(uint32_t& link);
  Footprint of(const Entry& e) const { return {e.bytes, e.rows, e.each ? &each_[e.each] : nullptr}; }

  const arch::Machine& machine_;
  OnClash on_clash_;
  const bool any_row_;
  std::vector<Area> areas_;        // per core SBUF and PSUM, then each tensor
  std::vector<Entry> entries_{1};  // 0 is nobody
  uint32_t free_ = 0;
  std::vector<Rows> each_{1};
  std::vector<uint32_t> each_free_;
  std::vector<Piece> pieces_;  // of the access at hand
  std::vector<Cell> cells_;    // the same, where its pieces are small and many
  const Access* access_ = nullptr;
  const Clock* clock_ = nullptr;
};

}  // namespace trine::run

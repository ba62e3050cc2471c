// Operands: what a loop reads that it does not make itself, as tiles on chip: where it is there already, else loaded by
// the transfers that suit how it lies.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "compile/device/loops/blocks.h"
#include "compile/device/loops/cover.h"
#include "compile/device/memory/store.h"

namespace trine::compile::device {

// Elements e0 + part × free of a memory: those of a tile and a block of the loop.
struct Slice {
  int64_t e0 = 0;
  Axes part = {}, free = {};
};

// The tile in hand.
struct AtTile {
  Dims parts, rows;  // the loop's dims on partitions; the same where a partition takes several rows
  const std::vector<Block>& tiles;
  size_t tile = 0;

  int partitions() const { return int(element_count(tiles[tile].count)); }
};

class Operands {
 public:
  Operands(Recorder& rec, Store& store) : rec_(rec), store_(store) {}

  Reads reads;         // all that the loop will ask for
  bool keeps = false;  // what was loaded for a tile stays until the next: rows are read more than once

  View read(Memory& m, const Slice& at, const Walk& walk, const AtTile& here);
  // 0, 1, 2 … of so many columns in every partition: one for all tiles.
  View counted(int64_t columns, const AtTile& here);

  // Bytes of the widest tile that would be loaded with what lies between its elements.
  int64_t widest(const std::vector<size_t>& frees, const Block& block) const;
  // Bytes of a partition's share of all rows of `frees` elements that the loop reads.
  int64_t row_bytes(const std::vector<size_t>& frees, const Dims& counts) const;

  void enter_block() { covers_.clear(); }
  void enter_tile() { loaded_.clear(); }

 private:
  View loaded(Memory& m, const Slice& at, const Walk& walk, const AtTile& here);
  View plain(Memory& m, const Slice& at, int partitions);
  std::optional<View> covered(Memory& m, const Slice& at, const Walk& walk, int partitions);
  std::optional<View> one_column_each(Memory& m, const Slice& at, const AtTile& here);
  std::optional<View> through_transpose(Memory& m, const Slice& at, const Dims& parts);
  View broadcast(Memory& m, const Slice& at, const AtTile& here);

  Recorder& rec_;
  Store& store_;
  std::map<std::vector<int64_t>, View> broadcasts_, loaded_;
  std::map<std::tuple<const Memory*, int64_t, std::vector<int64_t>>, View> covers_;  // of the block in hand
};

}  // namespace trine::compile::device

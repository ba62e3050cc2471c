// Form: where the elements of a value lie on chip. A value of E elements in dense order is a matrix of R rows by C
// columns; rows (or, transposed, columns) go to partitions, tile by tile, the other side along the free dim.
// Reshapes keep the dense order, so they keep every form.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/device/record.h"

namespace trine::compile::device {

// How an extent is cut into tiles of partitions: `per` in each, anew after every `period`.
struct Tiling {
  int64_t extent = 1, period = 1, per = 1;

  static Tiling plain(int64_t extent, int64_t partitions) { return {extent, extent, std::min(extent, partitions)}; }
  // Of the dims from major to minor: a tile holds whole items of the minor ones, and never parts of two items.
  static Tiling of(const std::vector<int64_t>& dims, int64_t partitions);

  int64_t tiles_per_period() const { return (period + per - 1) / per; }
  int64_t tiles() const { return period ? extent / period * tiles_per_period() : 0; }
  int64_t tile_of(int64_t p) const { return p / period * tiles_per_period() + p % period / per; }
  int64_t partition_of(int64_t p) const { return p % period % per; }
  int64_t begin(int64_t tile) const { return tile / tiles_per_period() * period + tile % tiles_per_period() * per; }
  int64_t size(int64_t tile) const { return std::min(per, period - tile % tiles_per_period() * per); }
  bool same(const Tiling& o) const;  // the same tiles
};

struct Form {
  Dtype dtype = Dtype::f32;
  bool transposed = false;  // columns on partitions
  int64_t rows = 1, columns = 1;
  Tiling tiling = {};
  std::vector<uint32_t> tensors = {};  // of each tile

  int64_t free() const { return transposed ? rows : columns; }
  // All of one tile.
  View tile(int64_t t) const;
};

// Engines read from partition 0, or 32 partitions from a multiple of 32, or 64 from one of 64.
bool starts_well(const View& v);

// The elements e0 + Σ strides, `part` running over partitions from major to minor, `free` along them; nothing where
// the form does not hold them so.
std::optional<View> access(const Form& form, int64_t e0, const Axes& part, const Axes& free);

}  // namespace trine::compile::device

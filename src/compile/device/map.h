// Elementwise ops as instructions on tiles: one row for each op of the graph that the chip's engines can compute.
// A Val is what an op works on: a number, one value per partition, or a tile.
#pragma once

#include <string_view>
#include <vector>

#include "compile/device/record.h"
#include "ir/graph.h"

namespace trine::compile::device {

struct Val {
  enum class Kind : uint8_t { number, row, tile };
  Kind kind = Kind::number;
  View view = {};
  double number = 0;

  static Val of(double v) { return {.number = v}; }
  static Val row(View v) { return {Kind::row, std::move(v)}; }
  static Val tile(View v) { return {Kind::tile, std::move(v)}; }
  bool is_number() const { return kind == Kind::number; }
  bool is_row() const { return kind == Kind::row; }
  bool is_tile() const { return kind == Kind::tile; }
};

// Is there a row for the op on these dtypes? `why` says what is missing.
bool has_map(const ir::Node& node, std::string* why = nullptr);

// Computes the node on inputs of `partitions` × `columns` elements. dst: where the result must go, or null for a new
// tile. The result is a row where columns is 1.
Val emit_map(Recorder& rec, const ir::Node& node, const std::vector<Val>& inputs, int partitions, int64_t columns,
             const View* dst);

// dst = value, cast on the way.
void emit_copy(Recorder& rec, const View& dst, const Val& value);

}  // namespace trine::compile::device

// Elementwise ops as instructions on tiles: one row for each op of the graph that the chip's engines can compute.
// A Val is what an op works on: a number, one value per partition, or a tile, the tile maybe still to be multiplied
// and added to: activations do that on the way, and so do reductions and copies.
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
  // Pending on a tile: view · scale + bias; each a number or one f32 per partition.
  bool scaled = false, shifted = false;
  Source scale = 1.0, bias = 0.0;

  static Val of(double v) {
    Val out;
    out.number = v;
    return out;
  }
  static Val row(View v) { return with(Kind::row, std::move(v)); }
  static Val tile(View v) { return with(Kind::tile, std::move(v)); }
  static Val with(Kind kind, View v) {
    Val out;
    out.kind = kind;
    out.view = std::move(v);
    return out;
  }
  bool is_number() const { return kind == Kind::number; }
  bool is_row() const { return kind == Kind::row; }
  bool is_tile() const { return kind == Kind::tile; }
  bool is_pending() const { return scaled || shifted; }
  void set_scale(Source s) { scaled = true, scale = std::move(s); }
  void set_bias(Source s) { shifted = true, bias = std::move(s); }
};

// The value with nothing pending, in dst or in a tile of its own.
Val settle(Recorder& rec, const Val& value, const View* dst = nullptr);

// a op b of rows and numbers, for what is pending. op: multiply, add, subtract.
Source row_math(Recorder& rec, const Source& a, const Source& b, std::string_view op);

// The node as a pending change of a tile; nothing where it is not one.
std::optional<Val> pend(Recorder& rec, const ir::Node& node, const std::vector<Val>& inputs);

// The activation that computes the node alone; empty where none does.
std::string_view activation_of(const ir::Node& node);

// dst = act(value), what is pending included. sum: where the row sums go, or null.
void emit_activation(Recorder& rec, const View& dst, const Val& value, std::string_view act, const View* sum = nullptr);

// Is there a row for the op on these dtypes? `why` says what is missing.
bool has_map(const ir::Node& node, std::string* why = nullptr);

// Computes the node on inputs of `partitions` × `columns` elements. dst: where the result must go, or null for a new
// tile. The result is a row where columns is 1.
Val emit_map(Recorder& rec, const ir::Node& node, const std::vector<Val>& inputs, int partitions, int64_t columns,
             const View* dst);

// dst = value, cast on the way.
void emit_copy(Recorder& rec, const View& dst, const Val& value);

}  // namespace trine::compile::device

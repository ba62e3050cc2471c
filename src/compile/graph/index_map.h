// Which element of a value is meant at a point of a loop nest: per dim of the value, an affine term of one loop dim.
// View ops (transpose, broadcast, slice, reverse, unit reshapes) only change the map, never move data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace trine::compile {

// scale * i[dim] + offset; a dim below 0: the offset alone.
struct IndexTerm {
  int dim = -1;
  int64_t scale = 0, offset = 0;

  bool operator==(const IndexTerm&) const = default;
};
using IndexMap = std::vector<IndexTerm>;

IndexMap identity_map(int rank);

enum class ViewKind : uint8_t {
  none,
  whole,  // every element of the input is meant, maybe more than once
  part,   // slice, reverse: other elements than its neighbour's
};
ViewKind view_kind(const ir::Node& node);

// The map of a view's input, given the view's own.
IndexMap through_view(const ir::Node& view, const IndexMap& map);

// Offset and stride per loop dim, in elements of a dense value.
struct Walk {
  int64_t offset = 0;
  std::vector<int64_t> strides = {};
};
Walk walk_of(const IndexMap& map, const Dims& value_dims, size_t loop_dims);

}  // namespace trine::compile

// Concatenations and pads that loops read through: a loop's box of indices is cut where their parts meet, so that in
// each box one part is read as it lies.
#pragma once

#include <span>
#include <utility>
#include <variant>

#include "compile/graph/index_map.h"

namespace trine::compile {

// Where a box of indices is cut in two.
struct Cut {
  size_t dim = 0;
  int64_t at = 0;
};
using Joined = std::variant<std::pair<ir::Value, IndexMap>, Cut>;

// A concatenation, or a pad without gaps, of types that loops have.
bool is_join(const ir::Node& node);
// Boxes that a loop with these joins in it, and one more, is cut into.
size_t boxes_of(std::span<const ir::Node* const> joins, const ir::Node& one_more);
// Do most of a join's elements lie in runs that are worth a vector?
bool has_long_runs(const ir::Node& join);
// Is the node as large as a part of one of the joins? Then it is computed in that part's box alone.
bool is_part(const ir::Node& node, std::span<const ir::Node* const> joins);
// Which part's element is meant over a box of so many indices, where it is one part; else where to cut the box.
Joined part_of(const ir::Node& join, const IndexMap& map, const Dims& box);

}  // namespace trine::compile

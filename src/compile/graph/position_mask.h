// Masks that are a comparison of positions, as `i >= j` of two iotas: known without looking at memory.
#pragma once

#include <optional>

#include "compile/graph/index_map.h"

namespace trine::compile {

// True where i[key] <= i[query] + offset; a query below 0: where i[key] <= offset.
struct PositionMask {
  int key = -1, query = -1;
  int64_t offset = 0;
};

// Of a boolean value seen through a map into some space.
std::optional<PositionMask> position_mask(const ir::Value& value, const IndexMap& map);

}  // namespace trine::compile

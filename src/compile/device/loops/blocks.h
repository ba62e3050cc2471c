// The parts a loop's space is walked in, and what a loop remembers of the values it made in one.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/device/loops/map.h"
#include "compile/graph/index_map.h"

namespace trine::compile::device {

// A part of a list of dims: where it begins and how many of each; those of the last lie `step` apart.
struct Block {
  Dims begin = {}, count = {};
  int64_t step = 1;
};

// Cuts dims into blocks of at most `limit` elements: whole items of the minor dims, a run of one, one of the major.
std::vector<Block> cut(const Dims& dims, int64_t limit);

// A value where a map says.
struct KeyLess {
  using Key = std::pair<ir::Value, IndexMap>;
  bool operator()(const Key& a, const Key& b) const {
    if (a.first != b.first)
      return std::tie(a.first.node->id, a.first.index) < std::tie(b.first.node->id, b.first.index);
    return std::lexicographical_compare(
        a.second.begin(), a.second.end(), b.second.begin(), b.second.end(), [](const IndexTerm& x, const IndexTerm& y) {
          return std::tie(x.dim, x.scale, x.offset) < std::tie(y.dim, y.scale, y.offset);
        });
  }
};
using Memo = std::map<std::pair<ir::Value, IndexMap>, Val, KeyLess>;

}  // namespace trine::compile::device

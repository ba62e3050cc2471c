// Join: results that lie side by side in short runs, as the halves of interleaved pairs do. The loops that make them
// become one, whose root is the concatenate: its tiles are filled run by run on chip and go to memory in one piece.
#pragma once

#include <span>
#include <vector>

#include "compile/graph/fuse.h"

namespace trine::compile::device {

struct Joined {
  const ir::Node* node = nullptr;     // the concatenate
  std::vector<ir::Value> parts = {};  // what it puts side by side, each of the loop's dims
  int64_t run = 1;                    // elements of a part that are neighbours

  int64_t pitch() const { return run * int64_t(parts.size()); }
  // How far the result moves where a part moves by so many elements: whole runs, or inside one.
  int64_t stride(int64_t of_part) const { return of_part % run ? of_part : of_part / run * pitch(); }
};

// Of a loop whose root is a concatenate.
std::optional<Joined> joined_by(const Unit& unit);

// Makes such loops, in place of the units that computed the parts and put them together.
void join(std::vector<Unit>& units, std::span<const ir::Value> live_out);

}  // namespace trine::compile::device

// Moves a block of elements between two layouts, for operands that do not lie along the vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trine::host {

struct BlockSide {
  std::byte* data = nullptr;    // element (0, 0); the source is not written
  int64_t row = 0, column = 0;  // bytes from one to the next
};

// to(r, c) = from(r, c) for all r < rows, c < columns; `size`: bytes of an element, 1, 2, 4 or 8.
void move_block(const BlockSide& to, const BlockSide& from, int64_t rows, int64_t columns, int size);

}  // namespace trine::host

// Boxes of elements copied between dense tensors: dynamic slices and updates, concatenation, padding.
#pragma once

#include <span>

#include "arch/plan/plan.h"

namespace trine::host {

void run_move(const arch::MoveStep& step, std::span<const TensorView> in, std::span<const TensorView> out);

// One box: `dims` elements of `size` bytes each, strides in elements of either side.
struct BoxSide {
  std::byte* data = nullptr;
  Dims strides = {};
};
void copy_box(const BoxSide& to, const BoxSide& from, const Dims& dims, size_t size);

}  // namespace trine::host

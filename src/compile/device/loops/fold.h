// Fold: which dims of a loop's space go along partitions and which along their free side, so that what is on chip is
// read where it is, and transfers are long.
#pragma once

#include <vector>

#include "compile/device/loops/join.h"
#include "compile/device/memory/store.h"

namespace trine::compile::device {

struct Fold {
  std::vector<size_t> parts = {}, frees = {};
  // Of a loop that reduces short rows: how many a partition takes. If several, the last dim of rows is on both sides.
  int64_t rows_each = 1;
};

// joined: of a loop that puts results side by side, or null.
Fold choose_fold(const arch::Chip& chip, Store& store, const Unit& unit, const Joined* joined);

}  // namespace trine::compile::device

// What a schedule leaves behind: for each piece, which values every rank holds at the end and in which order they were
// combined. Equal combinations are one value, so what a mesh sums on every rank is computed once here.
#pragma once

#include <vector>

#include "comm/schedule.h"

namespace trine::comm {

struct PieceOutcome {
  // Value r < ranks is what rank r brought; value ranks + i combines the values sums[i], in this order.
  std::vector<std::vector<int32_t>> sums = {};
  std::vector<int32_t> holds = {};  // of each rank, a value; -1: nothing

  bool operator==(const PieceOutcome&) const = default;
};

std::vector<PieceOutcome> outcome(const Schedule& schedule);

// Whether every rank ends with what the collective promises: each part once, none missing, none twice.
Result<void> verify(const Schedule& schedule, const Request& request);

}  // namespace trine::comm

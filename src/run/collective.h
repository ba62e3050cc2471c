// What a collective does to the values of its members, in the members' order: the same bits whoever arrives last.
// Not who meets whom (gathering.h), not time (comm/ and sim/).
#pragma once

#include <span>

#include "arch/plan/plan.h"

namespace trine::run {

struct Member {
  int64_t id = 0;  // as groups and pairs of the step name it
  std::span<const TensorView> in = {}, out = {};
};

// Sums of narrow floats are taken in f32 and rounded once.
Result<void> run_collective(const arch::CollectiveStep& step, std::span<const Member> members);

}  // namespace trine::run

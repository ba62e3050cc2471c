// What a collective does to the values of its members: the same bits whoever arrives last. Sums run in the order of a
// schedule (sum_order.h); what only moves goes straight from its source to its destination, as memory is shared here
// and any schedule ends with the same bytes. Not who waits for whom (rendezvous.h), not time (comm/ and sim/).
#pragma once

#include <span>

#include "arch/plan/plan.h"
#include "run/devices/sum_order.h"

namespace trine::run {

struct Member {
  int64_t id = 0;                                 // as groups and pairs of the step name it
  std::span<const TensorView> in = {}, out = {};  // no `out`: its results are another process's business
};

// Where the members are, and the orders of their machine; without it sums run over members in order.
struct Sums {
  SumOrders* orders = nullptr;
  std::vector<comm::Place> places = {};  // by member
};

// Sums of narrow floats are taken in f32 and rounded once.
Result<void> run_collective(const arch::CollectiveStep& step, std::span<const Member> members, const Sums& sums = {});

}  // namespace trine::run

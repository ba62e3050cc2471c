// Time of a step of many ranks: an event simulation of a Job. A collective begins when its last member is there; pieces
// that run at once on a rank share its units, so overlap, exposed collectives and a pipeline's bubbles follow.
// Invariant: what a rank's lane 0 did and waited for adds up to the step.
#pragma once

#include <map>

#include "sim/cluster/job.h"

namespace trine::sim {

enum class Spent : uint8_t {
  compute,     // on the core's engines, as long as alone
  slowed,      // the same pieces, longer for what they share with collectives
  collective,  // the engines wait for one while it runs
  waits,       // for another rank, which comes later to a collective or ends later
};
std::string_view name(Spent spent);

struct StepPart {
  Spent spent = Spent::compute;
  int32_t what = 0;   // of Job::names; of waits: the collective that could not begin, -1: the step's end
  int32_t rank = -1;  // that was waited for

  auto operator<=>(const StepPart&) const = default;
};

struct LaneSpan {
  int32_t rank = 0, lane = 0, what = 0;
  double begin_ns = 0, end_ns = 0;
};

struct RankTime {
  int64_t count = 1;                           // of ranks of this class
  std::map<StepPart, double> parts = {};       // of lane 0, in ns; they add up to the step
  std::map<int32_t, double> collectives = {};  // what -> ns in which such a one ran, hidden or not

  double sum(Spent spent) const;
  double hidden_ns() const;  // of collectives: ran while the engines worked
};

struct StepTime {
  double ns = 0;
  std::vector<RankTime> ranks = {};  // or classes of them
  std::vector<LaneSpan> spans = {};  // where asked for
};

// Fails where ranks wait for each other for ever, and says which for what.
Result<StepTime> time_step(const Job& job, bool with_spans = false);

}  // namespace trine::sim

// ChipTimes: what programs that ran take on the chip, for profilers of frameworks, which ask inside the process. Each
// is compiled and timed once. Not the profile itself (python/trine/profile), which has every event.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "api/machine.h"
#include "arch/plan/plan.h"

namespace trine::api {

struct ChipSlice {
  std::string_view unit, name;  // rows' own text
  int64_t begin_ps, end_ps;     // from the program's launch
};

struct ChipTime {
  int64_t ps = 0;
  std::vector<ChipSlice> slices = {};  // instructions, the first some thousand
};

class ChipTimes {
 public:
  ChipTimes();
  // Null where it has no time on the chip: the host computes it, or it cannot be compiled.
  const ChipTime* of(const arch::PlanSource& source);

 private:
  Result<ChipTime> timed(const arch::PlanSource& source) const;

  Result<Machine> machine_;
  std::map<const arch::PlanSource*, Result<ChipTime>> known_;
};

}  // namespace trine::api

// Runs a host plan: steps in order, each on memory the caller gave or in the plan's arena.
// Not devices, queues or futures (run/). Many threads may run one plan at once, each with its own Frame.
#pragma once

#include <span>

#include "arch/plan/plan.h"

namespace trine::host {

// Where this run's values meet those of other devices.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual Result<void> meet(const arch::CollectiveStep& step, std::span<const TensorView> in,
                            std::span<const TensorView> out) = 0;
};

struct Frame {
  std::span<const void* const> inputs = {};
  std::span<void* const> outputs = {};
  Meeting* meeting = nullptr;  // null: alone on one device
};

// Inputs and outputs are of the plan's types, dense; an output may be its donated input's memory only where the plan
// says so. On an error outputs hold garbage.
Result<void> execute(const arch::HostPlan& plan, const Frame& frame);

}  // namespace trine::host

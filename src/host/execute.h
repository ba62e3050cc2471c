// Runs a host plan: prepared once, then steps in order, each on memory the caller gave or in the plan's arena.
// Not devices, queues or futures (run/). Many threads may run one prepared plan at once, each with its own Frame.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/plan/plan.h"

namespace trine::host {

class PackedForms;

// Collectives of this run with other devices.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual Result<void> join(const arch::CollectiveStep& step, std::span<const TensorView> in,
                            std::span<const TensorView> out) = 0;
};

struct Frame {
  std::span<const void* const> inputs = {};
  std::span<void* const> outputs = {};
  std::span<PackedForms* const> packed_forms = {};  // beside each input that never changes, or null; may be empty
  Collectives* collectives = nullptr;               // null: alone on one device
};

// A plan with its kernels made ready. It never changes.
class Prepared;
Result<std::shared_ptr<const Prepared>> prepare(std::shared_ptr<const arch::HostPlan> plan);

// Per input: is it read by multiplies alone, and by those through its packed form where there is one?
const std::vector<bool>& by_forms_alone(const Prepared& prepared);

// Inputs and outputs are of the plan's types, dense; an output may be its donated input's memory only where the plan
// says so. On an error outputs hold garbage.
Result<void> execute(const Prepared& prepared, const Frame& frame);

}  // namespace trine::host

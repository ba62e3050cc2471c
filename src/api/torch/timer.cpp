// The clock that DistributedDataParallel reads on our devices: programs run when they are called, so it is the host's.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "api/torch/aten.h"

namespace c10d {

namespace {

class NeuronTimer final : public Timer {
 public:
  explicit NeuronTimer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = getTimeRef(start), to = getTimeRef(end);
    if (from == kUnsetTime || to == kUnsetTime) return std::nullopt;
    return to - from;
  }
};

}  // namespace

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, NeuronTimer)
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::XLA, NeuronTimer)

}  // namespace c10d

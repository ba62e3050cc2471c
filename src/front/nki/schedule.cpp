// Program order, transfers spread over queues; see schedule.h.
#include "front/nki/schedule.h"

namespace trine::front {

namespace {

constexpr arch::Engine kPreferred[] = {arch::Engine::tensor, arch::Engine::vector, arch::Engine::sync,
                                       arch::Engine::scalar, arch::Engine::gpsimd};

}  // namespace

std::vector<std::vector<Step>> schedule(Kernel& kernel, const Edges&) {
  std::vector<std::vector<Step>> out(kernel.program().cores);
  std::vector<int> next(static_cast<size_t>(kEngines));
  for (uint32_t w = 0; w < kernel.works.size(); ++w) {
    const Work& work = kernel.works[w];
    Step step{w, arch::Engine::sync, 0};
    for (const arch::Engine e : kPreferred)
      if (work.engines & arch::bit(e)) {
        step.engine = e;
        break;
      }
    if (work.unit() == arch::Unit::queue) {
      const int first = step.engine == arch::Engine::sync ? 0 : step.engine == arch::Engine::gpsimd ? 8 : 12;
      step.queue = static_cast<uint8_t>(first + next[static_cast<size_t>(step.engine)]++ % 4);
      if (work.queue_given)
        step.queue =
            static_cast<uint8_t>(kernel.program().attrs[work.attr + static_cast<size_t>(work.info->attr("queue"))]);
    }
    out[work.core].push_back(step);
  }
  return out;
}

}  // namespace trine::front

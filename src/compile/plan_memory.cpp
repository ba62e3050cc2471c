// Offsets of temporaries: in the order of their first write, each takes the lowest gap that is free for its lifetime.
#include <algorithm>

#include "compile/plan_builder.h"

namespace trine::compile {

using arch::HostPlan;
using arch::SlotKind;

namespace {

struct Life {
  arch::SlotId slot = 0;
  size_t first = SIZE_MAX, last = 0;  // steps
  int64_t bytes = 0;
};

std::vector<Life> lives_of(const HostPlan& plan) {
  std::vector<Life> lives(plan.slots.size());
  for (size_t s = 0; s < lives.size(); ++s) lives[s].slot = arch::SlotId(s);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto* side : {&plan.steps[i].in, &plan.steps[i].out}) {
      for (arch::SlotId id : *side) {
        lives[id].first = std::min(lives[id].first, i);
        lives[id].last = i;
      }
    }
  }
  std::erase_if(lives,
                [&](const Life& l) { return plan.slots[l.slot].kind != SlotKind::temporary || l.first == SIZE_MAX; });
  for (Life& l : lives) l.bytes = int64_t(std::max<size_t>(plan.slots[l.slot].bytes(), 1) + 63) / 64 * 64;
  return lives;
}

}  // namespace

void place_temporaries(HostPlan& plan) {
  std::vector<Life> lives = lives_of(plan);
  std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.first < b.first; });
  struct Held {
    int64_t offset, end;
    size_t last;
  };
  std::vector<Held> held;  // by offset
  for (const Life& life : lives) {
    std::erase_if(held, [&](const Held& h) { return h.last < life.first; });
    int64_t at = 0;
    auto next = held.begin();
    for (; next != held.end() && next->offset - at < life.bytes; ++next) at = std::max(at, next->end);
    held.insert(next, {at, at + life.bytes, life.last});
    plan.slots[life.slot].offset = at;
    plan.arena_bytes = std::max(plan.arena_bytes, at + life.bytes);
  }
}

}  // namespace trine::compile

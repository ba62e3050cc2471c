// Offsets of temporaries: in the order of their first write, each takes the lowest gap that is free for its lifetime.
#include <algorithm>

#include "compile/plan_builder.h"

namespace trine::compile {

using arch::HostPlan;
using arch::SlotId;
using arch::SlotKind;

namespace {

struct Life {
  arch::SlotId slot = 0;
  size_t first = SIZE_MAX, last = 0;  // steps
  int64_t bytes = 0;
};

SlotId base_of(const HostPlan& plan, SlotId id) {
  while (plan.slots[id].same_as != arch::kNoSlot) id = plan.slots[id].same_as;
  return id;
}

// The input a step may write its result over, or none.
SlotId in_place_operand(const arch::Step& step) {
  const auto* move = std::get_if<arch::MoveStep>(&step.what);
  return move && move->kind == arch::MoveKind::update ? step.in[0] : arch::kNoSlot;
}

// Does nothing read the slot's bytes after step `at`, nor that step itself by another operand?
bool is_last_use(const HostPlan& plan, SlotId base, size_t at) {
  size_t here = 0;
  for (SlotId id : plan.steps[at].in) here += base_of(plan, id) == base;
  if (here > 1) return false;
  for (size_t i = at + 1; i < plan.steps.size(); ++i)
    for (SlotId id : plan.steps[i].in)
      if (base_of(plan, id) == base) return false;
  return true;
}

// A temporary that its last reader can overwrite is the same memory as that step's result.
void share_in_place(HostPlan& plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const SlotId operand = in_place_operand(plan.steps[i]);
    if (operand == arch::kNoSlot) continue;
    const SlotId from = base_of(plan, operand), to = base_of(plan, plan.steps[i].out[0]);
    if (plan.slots[from].kind != SlotKind::temporary || from == to || !is_last_use(plan, from, i)) continue;
    plan.slots[from].same_as = to;
  }
}

std::vector<Life> lives_of(const HostPlan& plan) {
  std::vector<Life> lives(plan.slots.size());
  for (size_t s = 0; s < lives.size(); ++s) lives[s].slot = arch::SlotId(s);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto* side : {&plan.steps[i].in, &plan.steps[i].out}) {
      for (arch::SlotId id : *side) {
        id = base_of(plan, id);
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

std::vector<int> in_place_inputs(const HostPlan& plan) {
  std::vector<int> over(plan.outputs.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const SlotId operand = in_place_operand(plan.steps[i]);
    if (operand == arch::kNoSlot) continue;
    const arch::Slot &from = plan.slots[base_of(plan, operand)], &to = plan.slots[base_of(plan, plan.steps[i].out[0])];
    if (from.kind == SlotKind::input && to.kind == SlotKind::output && is_last_use(plan, base_of(plan, operand), i))
      over[to.index] = int(from.index);
  }
  return over;
}

void place_temporaries(HostPlan& plan) {
  share_in_place(plan);
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
  for (SlotId id = 0; id < plan.slots.size(); ++id) {
    const arch::Slot& base = plan.slots[base_of(plan, id)];
    arch::Slot& slot = plan.slots[id];
    slot.kind = base.kind;
    slot.index = base.index;
    slot.offset = base.offset;
  }
}

}  // namespace trine::compile

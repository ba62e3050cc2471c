// Offsets of temporaries: in the order of their first write, each takes the lowest gap that is free for its live range.
#include <algorithm>

#include "compile/host/plan_builder.h"

namespace trine::compile {

using arch::HostPlan;
using arch::SlotId;
using arch::SlotKind;

namespace {

struct LiveRange {
  arch::SlotId slot = 0;
  size_t first = SIZE_MAX, last = 0;  // steps
  int64_t bytes = 0;
};

SlotId base_of(const HostPlan& plan, SlotId id) {
  while (plan.slots[id].same_as != arch::kNoSlot) id = plan.slots[id].same_as;
  return id;
}

struct Pair {
  SlotId from = arch::kNoSlot, to = arch::kNoSlot;
};

// The operands of a step's loop program from `first` on: what it reads, then what it writes.
struct LoopOperands {
  const arch::LoopProgram& program;
  uint32_t first = 0;
  std::span<const SlotId> in = {}, out = {};
};
LoopOperands operands_of(const arch::Step& step) {
  static const arch::LoopProgram none;
  if (const auto* loop = std::get_if<arch::LoopStep>(&step.what)) return {loop->program, 0, step.in, step.out};
  const arch::StepEpilogue* epilogue = nullptr;
  if (const auto* gemm = std::get_if<arch::GemmStep>(&step.what)) epilogue = &gemm->epilogue;
  if (const auto* conv = std::get_if<arch::ConvStep>(&step.what)) epilogue = &conv->epilogue;
  if (!epilogue || !epilogue->program) return {none};
  return {*epilogue->program, 1, std::span(step.in).subspan(2), std::span(step.out).subspan(epilogue->keeps_product)};
}

// Is a value made from what operand `in` holds? Within a stage only that says which of a load and a store comes first.
bool reads(const arch::LoopProgram& p, arch::LoopValue value, uint32_t in) {
  std::vector<bool> seen(p.insns.size());
  std::vector<arch::LoopValue> left = {value};
  while (!left.empty()) {
    const arch::LoopValue v = left.back();
    left.pop_back();
    if (v == arch::kNoValue || seen[v]) continue;
    seen[v] = true;
    if (p.insns[v].op == arch::LoopOp::load && p.insns[v].at == in) return true;
    left.insert(left.end(), p.insns[v].in.begin(), p.insns[v].in.end());
  }
  return false;
}

// Does every store of `out` come after every load of `in`?
bool stores_after(const arch::LoopProgram& p, uint32_t in, uint32_t out) {
  int last = -1;
  for (const arch::LoopInsn& n : p.insns)
    if (n.op == arch::LoopOp::load && n.at == in) last = std::max<int>(last, n.stage);
  for (const arch::LoopInsn& n : p.insns)
    if (n.op == arch::LoopOp::store && n.at == out && (n.stage < last || (n.stage == last && !reads(p, n.in[0], in))))
      return false;
  return true;
}

// Is what operand `in` holds read at other elements than the loop's own?
bool picks(const arch::LoopProgram& p, uint32_t in) {
  return std::any_of(p.insns.begin(), p.insns.end(),
                     [&](const arch::LoopInsn& n) { return n.op == arch::LoopOp::pick && n.at == in; });
}

// A loop may overwrite what it reads at the very elements it writes, if nothing reads it again.
void add_loop_pairs(const LoopOperands& loop, std::vector<Pair>& pairs) {
  const arch::LoopProgram& p = loop.program;
  for (size_t o = 0; o < loop.out.size(); ++o) {
    const uint32_t out = loop.first + uint32_t(loop.in.size() + o);
    for (uint32_t i = 0; i < loop.in.size(); ++i) {
      const uint32_t in = loop.first + i;
      arch::LoopOperand same = p.operands[in];
      same.output = true;
      if (same == p.operands[out] && !picks(p, in) && stores_after(p, in, out))
        pairs.push_back({loop.in[i], loop.out[o]});
    }
  }
}

// Inputs a step may write results over.
std::vector<Pair> in_place_pairs(const arch::Step& step) {
  std::vector<Pair> pairs;
  if (const auto* move = std::get_if<arch::MoveStep>(&step.what); move && move->kind == arch::MoveKind::update)
    pairs.push_back({step.in[0], step.out[0]});
  if (const auto* windows = std::get_if<arch::WindowStep>(&step.what);
      windows && windows->kind != arch::WindowKind::gather)
    pairs.push_back({step.in[0], step.out[0]});
  add_loop_pairs(operands_of(step), pairs);
  return pairs;
}

// Steps that first write and last read each memory, by base slot.
struct Uses {
  std::vector<size_t> first_write, last_read;

  explicit Uses(const HostPlan& plan) : first_write(plan.slots.size(), SIZE_MAX), last_read(plan.slots.size(), 0) {
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      for (SlotId id : plan.steps[i].in) last_read[base_of(plan, id)] = i;
      for (SlotId id : plan.steps[i].out) {
        size_t& first = first_write[base_of(plan, id)];
        first = std::min(first, i);
      }
    }
  }
  void merge(SlotId from, SlotId to) {
    first_write[to] = std::min(first_write[to], first_write[from]);
    last_read[to] = std::max(last_read[to], last_read[from]);
  }
};

// Does step `at` read the memory last, and by one operand alone?
bool is_last_use(const HostPlan& plan, const Uses& uses, SlotId base, size_t at) {
  size_t here = 0;
  for (SlotId id : plan.steps[at].in) here += base_of(plan, id) == base;
  return here == 1 && uses.last_read[base] == at;
}

std::vector<LiveRange> live_ranges_of(const HostPlan& plan) {
  std::vector<LiveRange> ranges(plan.slots.size());
  for (size_t s = 0; s < ranges.size(); ++s) ranges[s].slot = arch::SlotId(s);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto* side : {&plan.steps[i].in, &plan.steps[i].out}) {
      for (arch::SlotId id : *side) {
        id = base_of(plan, id);
        ranges[id].first = std::min(ranges[id].first, i);
        ranges[id].last = i;
      }
    }
  }
  std::erase_if(ranges, [&](const LiveRange& l) {
    return plan.slots[l.slot].kind != SlotKind::temporary || l.first == SIZE_MAX;
  });
  for (LiveRange& l : ranges) l.bytes = int64_t(std::max<size_t>(plan.slots[l.slot].bytes(), 1) + 63) / 64 * 64;
  return ranges;
}

}  // namespace

void share_in_place(HostPlan& plan) {
  Uses uses(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const Pair& pair : in_place_pairs(plan.steps[i])) {
      const SlotId from = base_of(plan, pair.from), to = base_of(plan, pair.to);
      if (plan.slots[from].kind != SlotKind::temporary || from == to || !is_last_use(plan, uses, from, i)) continue;
      if (uses.first_write[to] < i) continue;  // another temporary has it
      plan.slots[from].same_as = to;
      uses.merge(from, to);
    }
  }
}

std::vector<int> in_place_inputs(const HostPlan& plan) {
  std::vector<int> over(plan.outputs.size(), -1);
  const Uses uses(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const Pair& pair : in_place_pairs(plan.steps[i])) {
      const SlotId base = base_of(plan, pair.from);
      const arch::Slot &from = plan.slots[base], &to = plan.slots[base_of(plan, pair.to)];
      const bool fits = from.kind == SlotKind::input && to.kind == SlotKind::output && from.bytes() == to.bytes() &&
                        uses.first_write[base_of(plan, pair.to)] == i;
      if (fits && over[to.index] < 0 && is_last_use(plan, uses, base, i) &&
          std::find(over.begin(), over.end(), int(from.index)) == over.end())
        over[to.index] = int(from.index);
    }
  }
  return over;
}

void allocate_temporaries(HostPlan& plan) {
  std::vector<LiveRange> ranges = live_ranges_of(plan);
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const LiveRange& a, const LiveRange& b) { return a.first < b.first; });
  struct Held {
    int64_t offset, end;
    size_t last;
  };
  std::vector<Held> held;  // by offset
  for (const LiveRange& range : ranges) {
    std::erase_if(held, [&](const Held& h) { return h.last < range.first; });
    int64_t at = 0;
    auto next = held.begin();
    for (; next != held.end() && next->offset - at < range.bytes; ++next) at = std::max(at, next->end);
    held.insert(next, {at, at + range.bytes, range.last});
    plan.slots[range.slot].offset = at;
    plan.arena_bytes = std::max(plan.arena_bytes, at + range.bytes);
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

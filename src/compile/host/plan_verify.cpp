// The invariants of a host plan; see pipeline.h. An error names the step.
#include <algorithm>

#include "base/text.h"
#include "compile/host/pipeline.h"

namespace trine::compile {

namespace {

using arch::HostPlan;
using arch::SlotId;
using arch::SlotKind;

class PlanVerifier {
 public:
  PlanVerifier(const HostPlan& plan, bool has_addresses)
      : plan_(plan), has_addresses_(has_addresses), ranges_(plan.slots.size()) {}

  Result<void> all() {
    for (SlotId id = 0; id < plan_.slots.size(); ++id) TRY(base_of(id));
    for (step_ = 0; step_ < plan_.steps.size(); ++step_) TRY(one(plan_.steps[step_]));
    for (SlotId id : plan_.outputs) {
      const SlotId base = TRY(base_of(id));
      if (!is_written(base)) return wrong(cat("output %", id, " is never written"));
    }
    return has_addresses_ ? apart() : Result<void>();
  }

 private:
  struct LiveRange {
    size_t first = SIZE_MAX, last = 0;
    SlotId slot = 0;
  };

  Error wrong(std::string what) const {
    return fail(Code::invalid, step_ < plan_.steps.size() ? cat("step ", step_, ": ", what) : std::move(what));
  }
  Result<SlotId> base_of(SlotId id) const {
    const SlotId first = id;
    for (size_t hops = 0; id < plan_.slots.size(); id = plan_.slots[id].same_as, ++hops) {
      if (plan_.slots[id].same_as == arch::kNoSlot) return id;
      if (hops > plan_.slots.size()) return wrong(cat("slot %", first, " lies in itself"));
    }
    return wrong(cat("slot %", first, " lies in one that is not there"));
  }
  bool is_written(SlotId base) const {
    const SlotKind kind = plan_.slots[base].kind;
    return kind == SlotKind::input || kind == SlotKind::constant || ranges_[base].first != SIZE_MAX;
  }

  Result<void> one(const arch::Step& step) {
    for (SlotId id : step.in) {
      const SlotId base = TRY(base_of(id));
      if (!is_written(base)) return wrong(cat("reads %", id, ", which nothing has written"));
      ranges_[base].last = step_;
    }
    for (SlotId id : step.out) {
      const SlotId base = TRY(base_of(id));
      const SlotKind kind = plan_.slots[base].kind;
      if (kind == SlotKind::input || kind == SlotKind::constant) return wrong(cat("writes %", id, ", an input"));
      ranges_[base].first = std::min(ranges_[base].first, step_);
      ranges_[base].last = step_;
    }
    return std::visit([&](const auto& what) { return inside(what); }, step.what);
  }

  template <class Any>
  Result<void> inside(const Any&) {
    return {};
  }
  Result<void> inside(const arch::LoopStep& loop) { return arch::verify(loop.program); }
  Result<void> inside(const arch::GemmStep& gemm) { return inside(gemm.epilogue); }
  Result<void> inside(const arch::ConvStep& conv) { return inside(conv.epilogue); }
  Result<void> inside(const arch::StepEpilogue& epilogue) {
    return epilogue.program ? arch::verify(*epilogue.program) : Result<void>();
  }
  Result<void> inside(const arch::WhileStep& loop) {
    TRY(PlanVerifier(*loop.cond, true).all());
    return PlanVerifier(*loop.body, true).all();
  }
  Result<void> inside(const arch::CaseStep& branches) {
    for (const auto& branch : branches.branches) TRY(PlanVerifier(*branch, true).all());
    return {};
  }

  // Temporaries that live at once share no byte of the arena.
  Result<void> apart() {
    std::vector<LiveRange> order;
    for (SlotId id = 0; id < ranges_.size(); ++id)
      if (plan_.slots[id].kind == SlotKind::temporary && ranges_[id].first != SIZE_MAX)
        order.push_back({ranges_[id].first, ranges_[id].last, id});
    std::stable_sort(order.begin(), order.end(),
                     [](const LiveRange& a, const LiveRange& b) { return a.first < b.first; });
    std::vector<LiveRange> live;
    for (const LiveRange& range : order) {
      std::erase_if(live, [&](const LiveRange& other) { return other.last < range.first; });
      const arch::Slot& slot = plan_.slots[range.slot];
      const int64_t end = slot.offset + int64_t(slot.bytes());
      if (end > plan_.arena_bytes) return wrong(cat("temporary %", range.slot, " lies past the arena's end"));
      for (const LiveRange& other : live) {
        const arch::Slot& o = plan_.slots[other.slot];
        if (slot.offset < o.offset + int64_t(o.bytes()) && o.offset < end)
          return wrong(cat("temporaries %", other.slot, " and %", range.slot, " live at once in the same bytes"));
      }
      live.push_back(range);
    }
    return {};
  }

  const HostPlan& plan_;
  const bool has_addresses_;
  size_t step_ = 0;
  std::vector<LiveRange> ranges_;
};

}  // namespace

Result<void> verify_plan(const HostPlan& plan, bool has_addresses) { return PlanVerifier(plan, has_addresses).all(); }

}  // namespace trine::compile

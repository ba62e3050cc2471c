// Makes a plan ready: kernels for loop programs, addresses for operands, loops and branches likewise.
#include <algorithm>

#include "host/execute.h"
#include "host/prepared.h"

namespace trine::host {

namespace {

using What = decltype(PreparedStep::what);

struct Ready {
  const arch::HostPlan& plan;
  const arch::Step& around;

  Result<What> operator()(const arch::CallStep& step) const { return What(&step); }
  Result<What> operator()(const arch::LoopStep& step) const { return What(TRY(prepare(step.program))); }
  Result<What> operator()(const arch::GemmStep& step) const { return product(step); }
  Result<What> operator()(const arch::ConvStep& step) const { return product(step); }
  Result<What> operator()(const arch::AttentionStep& step) const { return What(&step); }
  Result<What> operator()(const arch::MoveStep& step) const {
    std::vector<const arch::Slot*> in;
    for (arch::SlotId id : around.in) in.push_back(&plan.slots[id]);
    return What(Move(step, in, plan.slots[around.out[0]]));
  }
  Result<What> operator()(const arch::WindowStep& step) const {
    auto windows = [&](const arch::WindowStep& s, size_t first, std::shared_ptr<const Windows> updates) {
      return Windows(s, plan.slots[around.in[first]], plan.slots[around.in[first + 1]], std::move(updates));
    };
    if (!step.updates) return What(windows(step, 0, nullptr));
    return What(windows(step, 0, std::make_shared<const Windows>(windows(*step.updates, 2, nullptr))));
  }
  Result<What> operator()(const arch::CopyStep& step) const { return What(step); }
  Result<What> operator()(const arch::WhileStep& step) const {
    return What(PreparedLoop{step.in_place, TRY(prepare(step.cond)), TRY(prepare(step.body))});
  }
  Result<What> operator()(const arch::CaseStep& step) const {
    PreparedCase out;
    for (const auto& branch : step.branches) out.branches.push_back(TRY(prepare(branch)));
    return What(std::move(out));
  }
  Result<What> operator()(const arch::CollectiveStep& step) const { return What(&step); }
  template <class Step>
  static Result<What> product(const Step& step) {
    PreparedProduct<Step> out{&step};
    if (step.epilogue.program) out.epilogue = TRY(prepare_epilogue(*step.epilogue.program, 0));
    return What(std::move(out));
  }
};

std::vector<Operand> operands(const arch::HostPlan& plan, const std::vector<arch::SlotId>& ids) {
  std::vector<Operand> out;
  for (arch::SlotId id : ids) {
    const arch::Slot& slot = plan.slots[id];
    Operand at{slot.kind, slot.index, slot.offset, nullptr, &slot};
    if (slot.kind == arch::SlotKind::constant) {
      at.constant = plan.constants[slot.index].data.get();
      at.packed_forms = std::make_shared<PackedForms>();
    }
    out.push_back(at);
  }
  return out;
}

// A multiply whose second operand is one matrix of f32 for the whole batch asks for its packed form, and reads no other
// where there is one.
bool asks_for_form(const PreparedStep& step, size_t operand) {
  const auto* product = std::get_if<PreparedProduct<arch::GemmStep>>(&step.what);
  if (!product || operand != 1) return false;
  const auto is_f32 = [](const Operand& at) { return at.slot->dtype == Dtype::f32; };
  const auto& batch = product->what->batch;
  return std::all_of(batch.begin(), batch.end(), [](const auto& b) { return b.b == 0; }) && is_f32(step.in[0]) &&
         is_f32(step.in[1]) && std::all_of(step.out.begin(), step.out.end(), is_f32);
}

std::vector<bool> find_by_forms_alone(const Prepared& prepared) {
  std::vector<bool> out(prepared.plan->inputs.size(), true);
  for (const PreparedStep& step : prepared.steps)
    for (size_t i = 0; i < step.in.size(); ++i)
      if (step.in[i].kind == arch::SlotKind::input && !asks_for_form(step, i)) out[step.in[i].index] = false;
  return out;
}

bool multiplies(const PreparedStep& step) {
  if (const auto* loop = std::get_if<PreparedLoop>(&step.what)) return loop->cond->multiplies || loop->body->multiplies;
  if (const auto* choice = std::get_if<PreparedCase>(&step.what))
    return std::ranges::any_of(choice->branches, [](const auto& branch) { return branch->multiplies; });
  return std::holds_alternative<PreparedProduct<arch::GemmStep>>(step.what) ||
         std::holds_alternative<PreparedProduct<arch::ConvStep>>(step.what);
}

}  // namespace

std::unique_ptr<IdleRun> IdleRuns::take() {
  const std::scoped_lock lock(mutex_);
  if (runs_.empty()) return nullptr;
  std::unique_ptr<IdleRun> run = std::move(runs_.back());
  runs_.pop_back();
  return run;
}

void IdleRuns::put_back(std::unique_ptr<IdleRun> run) {
  constexpr size_t kMost = 4;  // threads that run the same program at once, as a rule
  const std::scoped_lock lock(mutex_);
  if (runs_.size() < kMost) runs_.push_back(std::move(run));
}

std::shared_ptr<const IterationCode> SharedIterations::of(std::vector<IterationCode::Step> steps) {
  const std::scoped_lock lock(mutex_);
  if (!was_made_)
    code_ = IterationCode::make(std::move(steps));
  else if (code_ && code_->steps() != steps)
    return nullptr;
  was_made_ = true;
  return code_;
}

const std::vector<bool>& by_forms_alone(const Prepared& prepared) { return prepared.by_forms_alone; }

Result<std::shared_ptr<const Prepared>> prepare(std::shared_ptr<const arch::HostPlan> plan) {
  auto out = std::make_shared<Prepared>();
  for (const arch::Step& step : plan->steps) {
    auto what = std::visit(Ready{*plan, step}, step.what);
    if (!what) return fail(what.error().code, what.error().message, plan->locations[step.where]);
    out->steps.push_back({*std::move(what), operands(*plan, step.in), operands(*plan, step.out), step.where});
  }
  out->plan = std::move(plan);
  out->by_forms_alone = find_by_forms_alone(*out);
  out->multiplies = std::ranges::any_of(out->steps, multiplies);
  return std::shared_ptr<const Prepared>(std::move(out));
}

}  // namespace trine::host

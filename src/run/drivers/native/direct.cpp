// Checks counts, then runs the plan in the caller's thread with the process's thread pool.
#include "run/drivers/native/direct.h"

#include "base/stop.h"
#include "base/text.h"
#include "host/execute.h"
#include "run/profile/ran.h"

namespace trine::run {

namespace {

// Only a tensor without bytes may have no address.
Result<void> check_addresses(const arch::HostPlan& plan, std::span<const arch::SlotId> slots, const auto& addresses,
                             std::string_view what) {
  for (size_t i = 0; i < slots.size(); ++i)
    if (!addresses[i] && plan.slots[slots[i]].bytes() > 0)
      return fail(Code::invalid,
                  cat(what, " ", i, " has no address; expected ", plan.slots[slots[i]].bytes(), " bytes"));
  return {};
}

}  // namespace

Result<std::shared_ptr<const DirectProgram>> DirectProgram::make(std::shared_ptr<const arch::HostPlan> plan) {
  auto prepared = TRY(host::prepare(plan));
  return std::shared_ptr<const DirectProgram>(new DirectProgram(std::move(plan), std::move(prepared)));
}

Result<void> DirectProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                                std::span<ArrayForms* const> packed_forms) const {
  if (inputs.size() != plan_->inputs.size() || outputs.size() != plan_->outputs.size())
    return fail(Code::invalid, cat("found ", inputs.size(), " inputs and ", outputs.size(), " outputs; expected ",
                                   plan_->inputs.size(), " and ", plan_->outputs.size()));
  TRY(check_addresses(*plan_, plan_->inputs, inputs, "input"));
  TRY(check_addresses(*plan_, plan_->outputs, outputs, "output"));
  if (!packed_forms.empty() && packed_forms.size() != inputs.size())
    return fail(Code::invalid, cat("found ", packed_forms.size(), " kept forms for ", inputs.size(), " inputs"));
  std::vector<host::PackedForms*> forms(packed_forms.size());
  for (size_t i = 0; i < packed_forms.size(); ++i)
    forms[i] = packed_forms[i] ? &packed_forms[i]->packed_forms : nullptr;
  if (RunRecord::process().is_on()) {
    std::vector<int64_t> weights;
    for (size_t i = 0; i < packed_forms.size(); ++i)
      if (packed_forms[i]) weights.push_back(int64_t(i));
    RunRecord::process().add(*plan_, 1, std::move(weights));
  }
  return without_throwing([&] {
    const Work work(limits().run_seconds, "running, by TRINE_RUN_SECONDS");
    return host::execute(*prepared_, {inputs, outputs, forms, nullptr});
  });
}

}  // namespace trine::run

// Checks counts, then runs the plan in the caller's thread with the process's thread pool.
#include "run/drivers/native/direct.h"

#include <chrono>

#include "base/stop.h"
#include "base/text.h"
#include "host/execute.h"
#include "run/faults/inject.h"
#include "run/profile/activity.h"
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
  RunRow* logged = nullptr;
  if (RunRecord::process().is_on()) {
    std::vector<int64_t> weights;
    for (size_t i = 0; i < packed_forms.size(); ++i)
      if (packed_forms[i]) weights.push_back(int64_t(i));
    logged = RunRecord::process().add(*plan_, 1, std::move(weights));
  }
  const RunClock clock(logged);
  ActivityRecord& record = ActivityRecord::process();
  const int64_t began = record.is_on() ? wall_ns() : 0;
  Result<void> outcome = without_throwing([&] {
    const Work work(limits().run_seconds, "running, by TRINE_RUN_SECONDS");
    return host::execute(*prepared_, {inputs, outputs, forms, nullptr});
  });
  if (began && record.is_on() && plan_->source)
    record.add(std::shared_ptr<const std::string>(plan_->source, &plan_->source->name), plan_->source, 0,
               wall_ns() - began);
  return outcome;
}

Result<void> DirectProgram::run_counted(std::span<const void* const> inputs, std::span<void* const> outputs,
                                        std::span<ArrayForms* const> packed_forms, Page* page, size_t core) const {
  ProgramCounters* const row = counted_.in(page, [&] {
    std::vector<int64_t> weights;
    for (size_t i = 0; i < packed_forms.size(); ++i)
      if (packed_forms[i]) weights.push_back(int64_t(i));
    return info_of(*plan_, 1, std::move(weights));
  });
  if (!row) return run(inputs, outputs, packed_forms);  // nothing is injected where nothing is published
  if (Injector::process().is_on()) return run_faulty(inputs, outputs, packed_forms, *page, core, *row);
  const int64_t weight = sample_weight(*row, core);
  const auto begin = weight ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  Result<void> outcome = run(inputs, outputs, packed_forms);
  const Status status = outcome ? Status::success : status_of(outcome.error().code);
  if (!weight) {
    page->count_untimed(*row, core, status);
    return outcome;
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  page->count_run(*row, core, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(), weight, status);
  return outcome;
}

Result<void> DirectProgram::run_faulty(std::span<const void* const> inputs, std::span<void* const> outputs,
                                       std::span<ArrayForms* const> packed_forms, Page& page, size_t core,
                                       ProgramCounters& row) const {
  Injector& injector = Injector::process();
  const int64_t id = page.core(core).id;
  const Injector::Ruling ruling = injector.before(id, page.core(core), row.name.data());
  if (ruling.failure) {
    page.count_run(row, core, 0, 1, ruling.status);
    return ruling.failure;
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<void> outcome = run(inputs, outputs, packed_forms);
  const auto took = std::chrono::steady_clock::now() - begin;
  page.count_run(row, core, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(), 1,
                 outcome ? Status::success : status_of(outcome.error().code));
  std::vector<std::span<std::byte>> bytes;
  for (size_t i = 0; outcome && i < outputs.size(); ++i)
    bytes.emplace_back(static_cast<std::byte*>(outputs[i]), plan_->slots[plan_->outputs[i]].bytes());
  if (outcome) injector.after(id, ruling.run, bytes);
  return outcome;
}

}  // namespace trine::run

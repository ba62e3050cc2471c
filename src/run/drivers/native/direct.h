// A host plan run on memory that the caller owns: no device, no queue, no copy; done when run() returns.
// Not for programs with collectives. The plan and its kernels never change, so many threads may run one.
#pragma once

#include <memory>
#include <span>

#include "arch/plan/plan.h"
#include "host/gemm/packed.h"
#include "run/counters/publish.h"

namespace trine::host {
class Prepared;
}

namespace trine::run {

// Packed forms of one tensor, which the owner of its bytes drops when they change.
struct ArrayForms {
  host::PackedForms packed_forms;
};

class DirectProgram {
 public:
  static Result<std::shared_ptr<const DirectProgram>> make(std::shared_ptr<const arch::HostPlan> plan);

  const arch::HostPlan& plan() const { return *plan_; }
  // Inputs and outputs are dense, of the plan's types and in its order. An output may be an input's memory only where
  // the plan's in_place says so. `packed_forms`: beside each input, or null; may be empty.
  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::span<ArrayForms* const> packed_forms) const;
  // The same, counted as a run of that core.
  Result<void> run_counted(std::span<const void* const> inputs, std::span<void* const> outputs,
                           std::span<ArrayForms* const> packed_forms, Page* page, size_t core) const;

 private:
  Result<void> run_faulty(std::span<const void* const> inputs, std::span<void* const> outputs,
                          std::span<ArrayForms* const> packed_forms, Page& page, size_t core,
                          ProgramCounters& row) const;
  DirectProgram(std::shared_ptr<const arch::HostPlan> plan, std::shared_ptr<const host::Prepared> prepared)
      : plan_(std::move(plan)), prepared_(std::move(prepared)) {}

  const std::shared_ptr<const arch::HostPlan> plan_;
  const std::shared_ptr<const host::Prepared> prepared_;
  CountedProgram counted_;
};

}  // namespace trine::run

// Compiled by the cache and timed; see chip_time.h.
#include "api/chip_time.h"

#include "api/device.h"
#include "arch/row.h"
#include "compile/device/device.h"
#include "run/drivers/timed/timed.h"

namespace trine::api {

namespace {

constexpr int64_t kSlicesMax = 4096;  // of one program
constexpr int64_t kFsPerPs = 1000;

}  // namespace

ChipTimes::ChipTimes() : machine_(choose_machine({})) {}

const ChipTime* ChipTimes::of(const arch::PlanSource& source) {
  auto found = known_.find(&source);
  if (found == known_.end()) found = known_.emplace(&source, timed(source)).first;
  return found->second && found->second->ps > 0 ? &*found->second : nullptr;
}

Result<ChipTime> ChipTimes::timed(const arch::PlanSource& source) const {
  if (!machine_) return Error(machine_.error());
  const Compiled compiled = TRY(compile_for_device(source.artifact, machine_->chip(), {}));
  ChipTime out;
  for (const compile::DevicePart& part : compiled.split().parts) {
    if (part.on_host) continue;
    const arch::Program& program = part.device.program;
    sim::TimeOptions options;
    options.events_max = kSlicesMax;
    const sim::Timing timing = TRY(run::run_timed(program, machine_->instance, options)).timing;
    for (const sim::Event& e : timing.events) {
      const arch::Row& row = *arch::row_by_opcode(program.streams[e.stream].insns[e.insn].opcode)->row;
      out.slices.push_back({sim::name(e.part), row.label.empty() ? row.name : row.label, out.ps + e.start / kFsPerPs,
                            out.ps + e.end / kFsPerPs});
    }
    out.ps += timing.end / kFsPerPs;
  }
  return out;
}

}  // namespace trine::api

// The timed driver: when a program's instructions start and end on a chip, and what that means in energy and dollars.
// No values here (drivers/exact); data is needed only where control flow depends on it.
#pragma once

#include <vector>

#include "arch/instances/instance.h"
#include "arch/program/program.h"
#include "base/result.h"
#include "run/report/finding.h"
#include "run/report/report.h"
#include "sim/core/timing.h"

namespace trine::run {

struct TimedResult {
  sim::Timing timing;
  Report report;
  std::vector<Finding> findings;  // a deadlock: then the times end where it stands still
};

// `program` has passed arch::verify for the instance's chip.
Result<TimedResult> run_timed(const arch::Program& program, const arch::Instance& instance,
                              const sim::TimeOptions& options = {});

// Femtoseconds from launch to end, the other cores of the HBM stack busy too: compile::DeviceOptions::timer.
Result<int64_t> time_among_others(const arch::Program& program, const arch::Chip& chip);

}  // namespace trine::run

// Trace: a timed program as Chrome trace JSON, which Perfetto opens: a process per core, a track per engine and DMA
// queue, arrows along semaphores, HBM rates as counters. Not a summary: report/report.h and explain/explain.h say what
// it means. Invariant: times are whole ns and slices of one track never overlap, as the format demands.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "arch/instances/instance.h"
#include "arch/program/program.h"
#include "base/result.h"
#include "sim/core/timing.h"

namespace trine::run {

inline constexpr int64_t kTraceEventsMax = int64_t{1} << 20;  // half a GB of text; Perfetto's page opens that

// Hands the JSON text over piece by piece.
void write_trace(const arch::Program& program, const arch::Instance& instance, const sim::Timing& timing,
                 const std::function<void(std::string_view)>& put);

struct SavedTrace {
  int64_t slices = 0;
  bool whole = true;
  double begin_ns = 0, end_ns = 0;  // what part of the program it shows
};

// Times the program again so that everything in options' window is recorded, and writes .json or .json.gz.
// Without a window a program of more than kTraceEventsMax events is cut: its beginning is recorded.
Result<SavedTrace> save_trace(const std::string& path, const arch::Program& program, const arch::Instance& instance,
                              sim::TimeOptions options, const sim::Timing& timed);

// Options that record everything up to `events_max`: the asked window, else all of it, else its beginning.
sim::TimeOptions recording(sim::TimeOptions options, const sim::Timing& timed, int64_t events_max);

}  // namespace trine::run

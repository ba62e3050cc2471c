// LineTotal: what each line of the user's source asks of the machine, over all its instructions. From a Timing, jumps
// included; when a line begins and ends is profile/line_times.h.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "base/format/json.h"
#include "sim/core/timing.h"

namespace trine::run {

struct LineTotal {
  static constexpr size_t kUnits = arch::kEngineCount + 1;  // the engines, then DMA
  std::string file;
  uint32_t line = 0;
  int64_t count = 0;  // instructions executed
  std::array<sim::Fs, kUnits> busy = {};
  sim::Fs waited = 0;
  sim::Traffic traffic;

  sim::Fs longest() const;  // of its units
  Json json() const;
};

// Those that kept a unit busy, the longest first. `timing` is the program's own on the chip.
std::vector<LineTotal> line_totals(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing);

}  // namespace trine::run

// Passes by name on a text, as LLVM's `opt` runs them: `trine compile --run-pass A,B FILE`. The text is a graph's, or a
// recorded kernel's for the passes of streams; every state on the way is verified. For tests and for finding faults.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compile/device/device.h"
#include "compile/graph/pipeline.h"

namespace trine::compile {

struct RunPassOptions {
  GraphOptions graph = {};  // which passes apply is not asked: those that are named run
  DeviceOptions device = {};
};

// The last pass's text. Passes of a later pipeline take up what those of an earlier one left.
Result<std::string> run_named_passes(std::string_view text, std::string_view file,
                                     std::span<const std::string_view> passes, const arch::Chip& chip,
                                     const RunPassOptions& options);

}  // namespace trine::compile

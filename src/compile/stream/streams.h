// Streams: a recorded kernel becomes a verified Program, by the passes of pipeline.h.
#pragma once

#include "base/diagnostic.h"
#include "compile/stream/pipeline.h"

namespace trine::compile {

struct StreamOptions {
  bool hoists = false, is_nki = false;  // as StreamState has it
  PassObserver observer = {};
};

// Takes the kernel apart, whatever the outcome. `why` says what was wrong, in parts; kernel.messages what was done.
Result<arch::Program> make_streams(Kernel& kernel, Diagnostic& why, const StreamOptions& options = {});
// The same, not verified: of several that are timed one is.
Result<arch::Program> make_unverified(Kernel& kernel, Diagnostic& why, const StreamOptions& options = {});
Result<void> verify_streams(const arch::Program& program, const arch::Chip& chip, Diagnostic& why);

}  // namespace trine::compile

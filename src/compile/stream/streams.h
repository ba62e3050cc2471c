// Streams: a recorded kernel, instructions in program order over tensors without a place, becomes a verified Program:
// buffers get places by their lifetimes (spilling what has no room), works get engines, queues and an order, and
// semaphores go between the engines. NKI kernels and compiled graphs both end here.
#pragma once

#include "base/complaint.h"
#include "compile/stream/kernel.h"

namespace trine::compile {

// Takes the kernel apart, whatever the outcome. `why` says what was wrong, in parts; kernel.messages what was done.
Result<arch::Program> make_streams(Kernel& kernel, Complaint& why);
// The same, not verified: of several that are timed one is.
Result<arch::Program> make_unverified(Kernel& kernel, Complaint& why);
Result<void> verify_streams(const arch::Program& program, const arch::Chip& chip, Complaint& why);

}  // namespace trine::compile

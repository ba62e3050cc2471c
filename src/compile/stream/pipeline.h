// The pipeline of streams: a recorded kernel, instructions in program order over tensors without an address, becomes a
// Program. NKI kernels and compiled graphs both end here.
// Invariant: a pass that may leave too much for the chip's memory keeps what it was given, and the pipeline goes on
// from there when `allocate` finds no room.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "compile/pass/pass.h"
#include "compile/stream/dependences.h"
#include "compile/stream/kernel.h"
#include "compile/stream/schedule.h"

namespace trine::compile {

struct StreamState {
  Kernel& kernel;
  bool hoists = false;         // kernels of compiled graphs; NKI's loops are as their author wrote them
  bool is_nki = false;         // written by hand: of ways to place its short tiles in PSUM the best is taken
  bool has_addresses = false;  // on chip

  Edges edges = {};
  std::vector<std::vector<Step>> schedule = {};  // of each core
  std::optional<arch::Program> program = {};
  Diagnostic why = {};  // of the pass that failed

  struct Given {
    std::string_view pass = {};
    Kernel kernel = {};
  };
  std::vector<Given> given = {};  // to passes that the kernel may be taken back to
};

const Pipeline<StreamState>& stream_pipeline();
// What Neuron's tensorizer does to a kernel of NKI's functional dialect, alone: for one that becomes part of a program.
Result<void> rearrange(Kernel& kernel);

std::vector<PassSize> kernel_sizes(const Kernel& kernel);
// Every instruction by the machine's rules, on every engine that it may run on.
Result<void> verify_kernel(const Kernel& kernel);
std::string dependences_text(const Kernel& kernel, const Edges& edges);
std::string schedule_text(const Kernel& kernel, const std::vector<std::vector<Step>>& schedule);

}  // namespace trine::compile

// What the engines ask of a program at every instruction, worked out once. Not the memory it runs on (arch/core.h).
#pragma once

#include <vector>

#include "arch/call.h"
#include "arch/chips/chip.h"
#include "arch/row.h"
#include "arch/sequencer.h"

namespace trine::run {

struct DecodedStream {
  arch::Sequencer begin;
  std::vector<const arch::RowInfo*> infos;  // of each instruction
  std::vector<bool> changes;                // of each instruction: it may write memory or a semaphore
};

struct DecodedProgram {
  DecodedProgram(const arch::Program& program, const arch::Chip& chip);

  const arch::Program& program;
  const arch::Chip& chip;
  arch::Forms forms;
  std::vector<DecodedStream> streams;
  std::vector<bool> written;   // tensors that an instruction may write
  bool at_rendezvous = false;  // there are rendezvous of cores
  bool moves = false;          // addresses depend on data
  bool wanders = false;        // which instructions run depends on data
};

}  // namespace trine::run

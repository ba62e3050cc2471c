// Rates: from a chip's numbers and an instruction's counts to cycles and nanoseconds, for whoever asks when: the timer,
// the scheduler and the recorder. Not what crosses instructions, which is sim/core's. Invariant: a formula of time
// stands here or in an instruction's row, and nowhere else.
#pragma once

#include "arch/chips/chip.h"
#include "arch/enums.h"
#include "arch/transfer.h"

namespace trine::arch {

struct EngineClock {
  double ghz = 1;
  double latency_cycles = 0;  // from the last issue cycle to the result in memory
};

EngineClock clock_of(const Chip& chip, Engine engine);

// Who writes the descriptors of a transfer when the program leaves it open: the engine that triggers it decides.
Dge dge_of(const Chip& chip, Engine engine, Dge asked);

struct TransferRate {
  double issue_ns = 0;  // descriptor generation, one transfer of an issuer at a time
  double start_ns = 0;  // trigger to first byte
  double stack_ns = 0;  // on the HBM stack
};

// `sharing`: cores that use the stack alike.
TransferRate rate_of(const Chip& chip, const Transfer& transfer, Dge dge, int sharing = 1);

// What one DMA engine's part of a transfer takes on it.
double share_ns(const Chip& chip, const Transfer& transfer, const Transfer::Share& share);

}  // namespace trine::arch

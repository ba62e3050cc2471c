// What faults do to one program: in its instructions, its time, its memory.
#pragma once

#include "arch/program/program.h"
#include "run/drivers/exact/exact.h"
#include "run/faults/fault.h"
#include "sim/core/timing.h"

namespace trine::run {

// Stuck semaphores: their updates change nothing. The same program where there are none.
arch::Program with_faults(const arch::Program& program, const Faults& faults);

// Slow DMA engines and throttled cores.
void slow_down(const arch::Program& program, const Faults& faults, sim::TimeOptions& options);

// Bits to flip in an exact run; an address that no tensor covers is an error that names what is there.
Result<std::vector<Flip>> flips_of(const arch::Program& program, const Faults& faults);

}  // namespace trine::run

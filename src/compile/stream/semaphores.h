// Semaphores: makes streams of a schedule. Each unit that completes instructions (an engine, a DMA queue) has one
// semaphore of its own, raised by those instructions that somebody waits for; a wait asks for a count. What a stream
// knows to be over is kept as a vector clock, so a wait that an earlier one implies is left out. Loops: everything is
// over before one begins, and before each next iteration; Sync then takes the counts back, so that an iteration starts
// as the one before did, however many there are.
#pragma once

#include <vector>

#include "base/result.h"
#include "compile/stream/schedule.h"

namespace trine::compile {

Result<void> insert_semaphores(Kernel& kernel, const Edges& edges, const std::vector<std::vector<Step>>& steps);

}  // namespace trine::compile

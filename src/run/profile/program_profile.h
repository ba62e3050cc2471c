// A timed program as the rows of a profile: its instructions, their executions by track, and what memory holds over
// time. Not the file itself (write.h). Invariant: events of a track do not overlap and are in order.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "run/profile/file.h"
#include "sim/core/timing.h"

namespace trine::run {

struct ProgramRows {
  std::vector<ProfileTrack> tracks = {};
  std::vector<ProfileEvent> events = {};
  std::vector<ProfileNode> nodes = {};
  std::vector<ProfileInsn> insns = {};
  std::vector<ProfileMemory> memory = {};
  std::vector<ProfileSemaphore> semaphores = {};
};

using Intern = std::function<uint32_t(std::string_view)>;  // a name's number in the file

// `timing` is the program's own, its events recorded.
ProgramRows program_rows(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing,
                         const Intern& intern);

// Bytes of each memory in use over time, from the first to the last event that touches a tensor. At most some thousand
// rows a memory: neighbours are joined, the larger of them stays.
std::vector<ProfileMemory> memory_rows(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing,
                                       const Intern& intern);

// The values that semaphores take, by core, semaphore and time; `place`: of each recorded event in the rows.
std::vector<ProfileSemaphore> semaphore_rows(const arch::Program& program, const arch::Chip& chip,
                                             const sim::Timing& timing, const std::vector<uint32_t>& place);

}  // namespace trine::run

// Findings: what a run noticed about the user's program. Data in a report, never an error of ours.
// Shared by every driver. A finding names the instruction, where in the loops it was, and the user's source line.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "arch/core.h"
#include "arch/program/program.h"
#include "arch/sequencer.h"

namespace trine::run {

// Where in a program something happened. `index` counts the stream's instructions from 0.
struct ProgramPoint {
  int stream = -1;  // -1: no instruction, the program as a whole
  uint32_t index = 0;
  std::vector<int64_t> loops;  // index of each enclosing loop, outermost first
};

struct Finding {
  arch::FaultKind kind = arch::FaultKind::uninitialized_read;
  ProgramPoint point;
  std::string operand;  // slot, or empty
  std::string found, expected, fix;
  std::string stream;       // "vector", "1.sync"
  std::string instruction;  // as the disassembler prints it
  std::string file;         // of the user's source, or empty
  uint32_t line = 0;
  bool warning = false;  // nothing that the program gives depends on it

  std::string message() const;  // found and expected in one line
  std::string text() const;     // several lines, as an error is shown
};

std::string stream_name(const arch::Stream& s);
ProgramPoint point_of(int stream, const arch::Sequencer& at);

// Keeps the first findings, each kind once per static instruction.
class Findings {
 public:
  Findings(const arch::Program& program, int limit) : program_(&program), limit_(limit) {}

  // False when it was known already or there is no room. `other` tells apart findings of one instruction.
  bool add(Finding f, uint64_t other = 0);
  Finding* find(arch::FaultKind kind, int stream, uint32_t index);  // the first of that instruction, or null
  bool full() const { return static_cast<int>(list_.size()) >= limit_; }
  int64_t dropped() const { return dropped_; }
  std::vector<Finding> take() { return std::move(list_); }
  const std::vector<Finding>& list() const { return list_; }

 private:
  const arch::Program* program_;
  int limit_;
  int64_t dropped_ = 0;  // new, but past the limit
  std::vector<Finding> list_;
  std::set<std::tuple<int, int, uint32_t, std::string, uint64_t>> known_;
};

// The general advice for a kind, where the finder has none that is closer.
std::string_view fix_for(arch::FaultKind k);

}  // namespace trine::run

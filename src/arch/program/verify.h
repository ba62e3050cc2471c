// Is this Program well formed, and may this chip run it? Two sets of checks: check_structure() needs no chip and makes
// a Program safe to walk (every loader calls it); verify() adds the machine's rules, memory sizes and each row's own.
// Every message names the operand, the rule and what to do. Values and timing are judged by nobody here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "arch/row.h"
#include "base/result.h"

namespace trine::arch {

struct Finding {
  Error error;      // where: the user's source line, or the stream and the instruction's number
  int stream = -1;  // index in Program::streams, or -1 when it is about the program as a whole
  uint32_t pc = 0;
};

// At most this many are collected; a broken file has thousands.
inline constexpr size_t kFindingsMax = 50;

std::vector<Finding> check_structure(const Program& p);
std::vector<Finding> verify(const Program& p, const Chip& chip);  // with the structure
Result<void> first_error(const std::vector<Finding>& findings);

// The loops around an instruction. A trip count that a register holds is not known before the run.
struct LoopNest {
  int depth = 0;
  std::array<int64_t, kLoopDepthMax> iterations{};  // -1: not known
};

// Do its engines compute with such numbers?
bool computes_with(const Chip& chip, Dtype dtype);

std::string where_of(const Program& p, int stream, uint32_t pc);

// The parts of verify(), one file each.
class Findings {
 public:
  explicit Findings(const Program& p) : program_(p) {}
  bool full() const { return all_.size() >= kFindingsMax; }
  bool empty() const { return all_.empty(); }
  size_t count() const { return count_; }  // with those that were not kept
  void at(int stream, uint32_t pc) { stream_ = stream, pc_ = pc; }
  void whole_program() { stream_ = -1; }
  void add(Code code, std::string message);
  std::vector<Finding> take() { return std::move(all_); }

 private:
  const Program& program_;
  std::vector<Finding> all_;
  size_t count_ = 0;
  int stream_ = -1;
  uint32_t pc_ = 0;
};
void check_memory(const Program& p, const Chip& chip, Findings& found);
void check_access(const Call& call, const LoopNest& loops, Findings& found);

}  // namespace trine::arch

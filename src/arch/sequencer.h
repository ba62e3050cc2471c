// Sequencer: walks one stream as the hardware's instruction fetch does: loops, branches and register arithmetic are
// carried out here, everything else is handed to the caller. Shared by every driver, so they agree on control flow.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/call.h"
#include "arch/program/program.h"

namespace trine::arch {

// Opcodes the sequencer itself acts on; their rows are in insns/sync.cpp.
inline constexpr uint16_t kOpLoop = 0x01, kOpEndLoop = 0x02, kOpBranch = 0x03, kOpJump = 0x04, kOpRegisterMove = 0x05,
                          kOpRegisterAlu = 0x06, kOpRegisterLoad = 0x07, kOpRegisterStore = 0x08;

class Sequencer {
 public:
  // Where the walk stands; copying it is how a timer remembers and jumps.
  struct Frame {
    uint32_t begin = 0;  // first instruction of the body
    int64_t count = 0;
    bool operator==(const Frame&) const = default;
  };
  struct Position {
    uint32_t pc = 0;
    int depth = 0;
    std::array<int64_t, kLoopDepthMax> loops{};
    std::array<Frame, kLoopDepthMax> frames{};
    std::array<uint32_t, kRegisterCount> registers{};
    bool operator==(const Position&) const = default;
  };

  Sequencer(const Program& program, const Stream& stream);

  bool done() const { return at_.pc >= stream_->insns.size(); }
  uint32_t pc() const { return at_.pc; }
  const Insn& insn() const { return stream_->insns[at_.pc]; }
  const Stream& stream() const { return *stream_; }
  bool at_control() const;   // loop, end, branch, jump, register move or alu
  void step_control();       // carries out the control instruction at pc
  void step() { ++at_.pc; }  // past any other
  void set_register(int index, uint32_t value) { at_.registers[static_cast<size_t>(index)] = value; }

  int depth() const { return at_.depth; }
  const int64_t* loops() const { return at_.loops.data(); }
  const uint32_t* registers() const { return at_.registers.data(); }
  const Position& position() const { return at_; }
  void move_to(const Position& p) { at_ = p; }
  uint32_t end_of_loop(uint32_t loop_pc) const { return match_[loop_pc]; }

  int64_t wait_value(const Wait& w) const {
    int64_t v = w.value;
    if (w.steps) {
      const auto& step = program_->steps[w.steps];
      for (size_t d = 0; d < static_cast<size_t>(at_.depth); ++d) v += step[d] * at_.loops[d];
    }
    return v;
  }

 private:
  int64_t value(const Operand& o) const;
  void enter_loop();
  void end_iteration();
  void branch();
  void alu();

  const Program* program_;
  const Stream* stream_;
  Position at_;
  std::vector<uint32_t> match_;  // of each loop: its end
};

}  // namespace trine::arch

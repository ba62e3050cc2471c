// Sequencer: walks one stream as the hardware's instruction fetch does: loops, branches and register arithmetic are
// carried out here, everything else is handed to the caller. Shared by every driver, so they agree on control flow.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "arch/call.h"
#include "arch/program.h"
#include "base/result.h"

namespace trine::arch {

// Opcodes the sequencer itself acts on; their rows are in insns/sync.cpp.
inline constexpr uint16_t kOpLoop = 0x01, kOpEndLoop = 0x02, kOpBranch = 0x03, kOpJump = 0x04, kOpRegisterMove = 0x05,
                          kOpRegisterAlu = 0x06, kOpRegisterLoad = 0x07, kOpRegisterStore = 0x08;

class Sequencer {
 public:
  Sequencer(const Program& program, const Stream& stream);

  bool done() const { return pc_ >= stream_->insns.size(); }
  uint32_t pc() const { return pc_; }
  const Insn& insn() const { return stream_->insns[pc_]; }
  const Stream& stream() const { return *stream_; }
  bool at_control() const;  // loop, end, branch, jump, register move or alu
  void step_control();      // carries out the control instruction at pc
  void step() { ++pc_; }    // past any other

  int depth() const { return depth_; }
  const int64_t* loops() const { return loops_.data(); }
  int64_t trip_count(int depth) const { return frames_[static_cast<size_t>(depth)].count; }
  uint32_t loop_begin(int depth) const { return frames_[static_cast<size_t>(depth)].begin; }
  // Jumping ahead: pretends `more` further iterations of the innermost open loop have run.
  void skip_iterations(int depth, int64_t more) { loops_[static_cast<size_t>(depth)] += more; }
  std::array<uint32_t, kRegisterCount>& registers() { return registers_; }
  const std::array<uint32_t, kRegisterCount>& registers() const { return registers_; }

  int64_t wait_value(const Wait& w) const {
    int64_t v = w.value;
    if (w.steps) {
      const auto& step = program_->steps[w.steps];
      for (int d = 0; d < depth_; ++d) v += step[static_cast<size_t>(d)] * loops_[static_cast<size_t>(d)];
    }
    return v;
  }

 private:
  struct Frame {
    uint32_t begin = 0;  // first instruction of the body
    int64_t count = 0;
  };
  int64_t value(const Operand& o) const;
  void enter_loop();
  void end_iteration();
  void branch();
  void alu();

  const Program* program_;
  const Stream* stream_;
  uint32_t pc_ = 0;
  int depth_ = 0;
  std::array<int64_t, kLoopDepthMax> loops_{};
  std::array<Frame, kLoopDepthMax> frames_{};
  std::array<uint32_t, kRegisterCount> registers_{};
  std::vector<uint32_t> match_;  // of each loop: its end
};

}  // namespace trine::arch

// Timer: walks all streams of a program in the order of time. Engines are in order; what they share (semaphores,
// ports, DMA engines, HBM stacks) is decided by who comes first, ties by engine number.
#pragma once

#include <vector>

#include "arch/sequencer.h"
#include "sim/core/jump.h"
#include "sim/core/plan.h"
#include "sim/core/state.h"
#include "sim/core/timing.h"

namespace trine::sim {

class Timer {
 public:
  Timer(const arch::Program& program, const arch::Chip& chip, const TimeOptions& options);
  Result<Timing> run();

 private:
  friend class Jumper;

  bool advance();  // one step; false when nothing can move
  Result<void> issue(size_t engine);
  void control(size_t engine, const TimedInsn& p);
  bool waits_hold(size_t engine, const TimedInsn& p);
  void load_table(size_t engine, int16_t table);
  void run_on_engine(size_t engine, const TimedInsn& p);
  void multiply(size_t engine, const TimedInsn& p);
  void trigger(size_t engine, const TimedInsn& p);
  void enter_rendezvous(size_t engine, const TimedInsn& p);
  Result<void> load_register(size_t engine, const TimedInsn& p);
  void arrive(const Pending& e);
  void update_semaphores(const Pending& e);

  int64_t shift_of(size_t engine, const Footprint& print) const;  // bytes, by the loops it stands in
  Fs dependency(size_t engine, const TimedInsn& p);
  void remember_result(size_t engine, const TimedInsn& p, Fs done);
  Fs port_free(size_t engine, const TimedInsn& p) const;
  void take_port(size_t engine, const TimedInsn& p, Fs until);
  Fs throttled(uint8_t core, Fs start, Fs interval);
  void finish(size_t engine, const TimedInsn& p, Fs start, Fs end, Stamp done, Part part, Fs busy);
  int64_t record(const Event& e);  // its index, or -1 when it is not kept
  void push(Pending e);
  bool in_window(Fs t) const;
  Timing result();

  const arch::Program& program_;
  const arch::Chip& chip_;
  TimeOptions options_;
  Plan plan_;
  std::vector<arch::Sequencer> sequencers_;   // one per stream
  std::vector<char> steers_;                  // of each stream: registers decide where it goes, or how often
  std::vector<std::vector<uint32_t>> loads_;  // of each stream: where its register_loads stand
  std::vector<int> semaphore_index_;          // of each hardware semaphore, -1 unused
  std::vector<uint16_t> semaphore_used_;
  std::vector<int> queue_index_;
  State state_;
  Timing timing_;
  Jumper jumper_;
  uint64_t sequence_ = 0;
  int64_t steps_ = 0;
  Fs window_begin_ = 0, window_end_ = 0;
  Error error_;
  bool failed_ = false;
};

}  // namespace trine::sim

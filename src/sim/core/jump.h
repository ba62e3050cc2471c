// Jumper: notices that whole loop iterations repeat exactly and moves the state ahead by many of them at once.
// Exact: it acts only when every relative time, position and count is equal to what it was a period ago and every
// semaphore wait in the loops moves in step, so the walked and the jumped end time are the same femtosecond.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "arch/sequencer.h"
#include "sim/core/state.h"

namespace trine::sim {

class Timer;

class Jumper {
 public:
  explicit Jumper(Timer& timer) : timer_(timer) {}

  void entered_loop(size_t engine, int depth);  // forget what was seen at this depth and deeper
  void finished_iteration(size_t engine);       // the innermost open loop of the engine goes round again
  void executed(size_t engine, uint32_t insn, Fs busy, Fs waited);

 private:
  struct Snapshot {
    uint64_t hash = 0;
    int64_t iteration = 0;
    Fs now = 0;
    size_t log = 0;
    std::vector<arch::Sequencer::Position> positions;
    State state;  // its pending list in order of time
  };
  struct Seen {
    int64_t iterations = 0;
    std::vector<Snapshot> snapshots;
  };
  // One executed instruction, or (times > 0) the log's range [begin, end) that many times more.
  struct Logged {
    uint32_t stream = 0, insn = 0;
    Fs busy = 0, waited = 0;
    size_t begin = 0, end = 0;
    int64_t times = 0;
  };
  struct Progress {  // of one engine over a period
    int depth = -1;  // of the loop that advanced, -1: stood still
    int64_t iterations = 0;
  };
  using Deltas = std::vector<std::vector<int64_t>>;  // of the semaphores, as in State

  Snapshot take(Fs now) const;
  uint64_t hash(const State& s, Fs now) const;
  bool progressed(const Snapshot& then, const Snapshot& here, std::vector<Progress>& out) const;
  bool same_engine(size_t engine, const Snapshot& then, const Snapshot& here, bool standing) const;
  bool same_shared(const Snapshot& then, const Snapshot& here) const;
  bool same(const Snapshot& then, const Snapshot& here, std::vector<Progress>& progress) const;
  bool same_paths(const Snapshot& before, const Snapshot& then, const Snapshot& here,
                  const std::vector<Progress>& progress) const;
  int64_t periods(const Snapshot& then, const Snapshot& here, const std::vector<Progress>& progress);
  int64_t periods_standing(size_t engine, const Deltas& delta) const;
  bool waits_in_step(size_t engine, const Progress& p, const Deltas& delta) const;
  bool addresses_in_step(size_t engine, int depth);
  void jump(const Snapshot& then, const Snapshot& here, const std::vector<Progress>& progress, int64_t times);
  void add_log(size_t begin, size_t end, int64_t times);

  Timer& timer_;
  std::map<std::pair<size_t, int>, Seen> seen_;                // by engine and loop depth
  std::map<std::pair<size_t, uint32_t>, bool> address_cache_;  // by engine and loop begin
  std::vector<Logged> log_;
};

}  // namespace trine::sim

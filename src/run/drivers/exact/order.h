// Order: which accesses of a run must come before which, on any machine that keeps the program's semaphores. Vector
// clocks over threads: one per stream, and one per DMA queue of a stream (in order within itself).
// A wait learns only what must have happened for its semaphore to get there, whoever else could have raised it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "arch/program/program.h"

namespace trine::run {

// clock[t]: how many periods of thread t are known to be over. A thread's own entry is the period it is in.
using Clock = std::vector<uint64_t>;

// The updates of one semaphore: how much, by whom and knowing what.
class Tally {
 public:
  void add(int thread, const Clock& clock, int64_t value);  // value may be negative
  // Raises `known` to all that must have happened for the value to be at least (or at most) `wanted`: in each thread,
  // the point without which the other updates could not bring it there.
  void learn(bool at_least, int64_t wanted, Clock& known) const;
  int64_t known_to(const Clock& clock) const;  // the sum of what is in this clock's past
  bool all_known_to(const Clock& clock) const;
  void settle(const std::vector<const Clock*>& waiters);  // folds what every waiter knows
  void clear() { lists_.clear(); }

 private:
  struct List {  // of one thread, so each entry knows all that the ones before it knew
    int thread = 0;
    size_t threads = 0;
    int64_t folded = 0;                 // the total up to the first entry kept
    size_t gone = 0;                    // entries of the two below that were folded
    std::vector<int64_t> totals = {};   // of its values up to each entry
    std::vector<uint64_t> clocks = {};  // one after the other
    size_t size() const { return totals.size() - gone; }
    uint64_t knows(size_t entry, size_t of) const { return clocks[(gone + entry) * threads + of]; }
    uint64_t own(size_t entry) const { return knows(entry, static_cast<size_t>(thread)); }
    int64_t total(size_t n) const { return n ? totals[gone + n - 1] : folded; }  // of the first n
    size_t known_to(const Clock& clock) const;                                   // how many
    void fold();                                                                 // the first
  };
  void learn_from_one(const List& list, int64_t sign, int64_t wanted, Clock& known) const;
  std::vector<List> lists_;
};

class Order {
 public:
  explicit Order(const arch::Program& program);

  // The thread that carries out an instruction: its stream, or the queue that it names.
  int thread(int stream, uint32_t pc) const { return threads_[static_cast<size_t>(stream)][pc]; }
  const Clock& clock(int thread) const { return clocks_[static_cast<size_t>(thread)]; }
  uint64_t period(int thread) const { return clock(thread)[static_cast<size_t>(thread)]; }
  // The threads of a thread's stream: a queue belongs to the stream that triggers it.
  int stream_of(int thread) const { return stream_of_[static_cast<size_t>(thread)]; }

  void trigger(int stream, int queue_thread);  // a transfer starts, knowing what its engine knows
  void finish_transfer(int queue_thread);
  // False when a `set` may come before or after another update, so that the semaphore's value is anyone's guess.
  bool update(int thread, int core, const arch::Update& u);
  void wait(int stream, int core, const arch::Wait& w, int64_t value);
  void barrier(const std::vector<int>& streams);  // all of them reach a point together
  void end(int stream);                           // will not wait any more
  // Several threads raise it, and the wait is not met by what the stream knows already: what it learns depends on who
  // else may have been first.
  bool ambiguous(int stream, int core, const arch::Wait& w, int64_t value) const;
  // Streams one of whose waits was met before an update that could as well have come first, and so may have learned too
  // much. Their waits are right in a run that lets them on last.
  const std::set<int>& hasty() const { return hasty_; }

 private:
  struct Semaphore {
    Tally tally = {};
    std::vector<int> waiters = {};           // streams
    std::vector<int> updaters = {};          // threads
    std::map<int, uint64_t> waits_met = {};  // of each stream: the period in which its last ambiguous wait was met
  };
  struct Past {  // of a queue that several streams use: what had been triggered when, and what its transfer knew
    std::deque<uint64_t> triggered;
    std::deque<Clock> clocks;
  };
  Semaphore& semaphore(int core, uint16_t number) {
    return semaphores_[static_cast<size_t>(core) * semaphores_each_ + number];
  }
  const Semaphore& semaphore(int core, uint16_t number) const {
    return const_cast<Order*>(this)->semaphore(core, number);
  }
  void note_stream(const arch::Program& program, int stream, std::map<std::pair<int, int64_t>, int>& queues);
  void next_period(int thread) { ++clocks_[static_cast<size_t>(thread)][static_cast<size_t>(thread)]; }

  std::set<int> hasty_;
  std::vector<Clock> clocks_;
  std::vector<int> stream_of_;
  std::vector<std::vector<int>> threads_;  // of each stream's instructions
  std::vector<bool> ended_;
  std::map<int, std::vector<int>> rivals_;  // queue thread -> same queue, other streams
  std::map<int, Past> past_;                // of queue threads with rivals
  size_t semaphores_each_ = 0;              // of a core
  std::vector<Semaphore> semaphores_;
  std::vector<const Clock*> waiters_;  // of the semaphore at hand
};

}  // namespace trine::run

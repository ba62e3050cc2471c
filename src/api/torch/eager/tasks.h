// Work beside its caller: a queue runs its tasks in order, on a thread of its own that starts with the first of them.
// A Moment is when something has ended; tasks wait for moments, and what two of them do to one memory happens in the
// order in which they were added, whoever waits for whom. Knows neither torch nor Python: no task may need Python's
// lock. Invariant: a task waits only for what was there before it, so that queues never wait for each other in a ring.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace trine::api::neuron {

class Moment {
 public:
  bool is_past() const;  // a moment of the process that this one was forked from is past: nobody is left to end it
  int64_t ns() const { return ns_.load(std::memory_order_acquire); }  // of the steady clock; 0: not past
  void mark();                                                        // now; nobody is told
  void come();                                                        // now; who waits for it goes on

 private:
  std::atomic<int64_t> ns_ = 0;
  const int generation_ = generation();
  static int generation();
};
using MomentPtr = std::shared_ptr<Moment>;
using Moments = std::vector<MomentPtr>;
MomentPtr moment_now();

// Who still reads and writes which bytes of a memory.
struct Uses {
  struct Use {
    MomentPtr end;
    bool is_written = false;
    int64_t from = 0, to = 0;
  };
  std::vector<Use> all = {};
};
struct UseOf {
  Uses* uses = nullptr;
  bool is_written = false;
  int64_t from = 0, to = INT64_MAX;  // bytes, `to` left out
};

struct Task {
  std::function<void()> run = {};  // may throw; empty: only waits
  Moments after = {};
  std::vector<UseOf> uses = {};
  std::vector<std::shared_ptr<void>> held = {};  // until it has ended
};

extern std::atomic<int64_t> tasks_pending;  // and a failure that nobody was told of
inline bool is_busy() { return tasks_pending.load(std::memory_order_acquire) != 0; }

MomentPtr add_task(int64_t queue, Task task);  // its end
bool is_full(int64_t queue);                   // it is long already: who adds to it should wait
void wait_for_room(int64_t queue);
MomentPtr last_task(int64_t queue);            // its end; null: nothing is in the queue
Moments last_tasks(int64_t from, int64_t to);  // of queues with these numbers, `to` left out

void wait_for(const Moments& moments);
Moments conflicts(const std::vector<UseOf>& uses);  // what a new use has to wait for
void note_uses(const std::vector<UseOf>& uses, const MomentPtr& end);
std::exception_ptr take_failure();  // the first since the last call; null: all went well

void end_tasks();  // those that run end, those that wait are dropped, and new ones run where they are added

}  // namespace trine::api::neuron

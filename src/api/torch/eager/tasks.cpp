// One lock and one condition for all queues: they are few, and tasks are long beside them. See tasks.h.
#include "api/torch/eager/tasks.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace trine::api::neuron {

std::atomic<int64_t> tasks_pending = 0;

namespace {

constexpr size_t kDepth = 256;  // of a queue: tasks hold memory, so who adds more waits

std::atomic<int> forks = 0;

struct Item {
  Task task;
  MomentPtr end = std::make_shared<Moment>();
};

struct Queue {
  std::deque<Item> items;  // the first may be running
  std::thread thread;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int64_t, Queue> queues;
  std::exception_ptr failure;
  bool is_over = false;
};

std::atomic<State*> now{nullptr};

// A forked child has none of the threads: it leaves all queues alone and begins anew.
void renew_in_child() {
  ++forks;
  tasks_pending = 0;
  now = nullptr;
}

State& state() {
  static std::mutex making;
  if (State* found = now.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(making);
  if (State* found = now.load(std::memory_order_acquire)) return *found;
  static const int at_fork = pthread_atfork([] { making.lock(); }, [] { making.unlock(); },
                                            [] {
                                              renew_in_child();
                                              making.unlock();
                                            });
  (void)at_fork;
  now = new State;  // never destroyed: tensors may outlive every static
  return *now;
}

bool are_past(const Moments& moments) {
  return std::ranges::all_of(moments, [](const MomentPtr& m) { return !m || m->is_past(); });
}

void add_conflicts(const UseOf& use, Moments& out) {
  for (const Uses::Use& other : use.uses->all)
    if ((use.is_written || other.is_written) && use.from < other.to && other.from < use.to && !other.end->is_past())
      out.push_back(other.end);
}

void note(const UseOf& use, const MomentPtr& end) {
  std::erase_if(use.uses->all, [](const Uses::Use& other) { return other.end->is_past(); });
  use.uses->all.push_back({end, use.is_written, use.from, use.to});
}

// The first of a queue, with the lock held; let go of meanwhile.
void run_first(State& s, Queue& q, std::unique_lock<std::mutex>& lock) {
  Item& item = q.items.front();  // a deque's first stays where it is while others are added
  s.changed.wait(lock, [&] { return s.is_over || are_past(item.task.after); });
  const bool is_dropped = s.is_over;
  lock.unlock();
  std::exception_ptr failure;
  try {
    if (item.task.run && !is_dropped) item.task.run();
  } catch (...) {
    failure = std::current_exception();
  }
  item.task = {};  // memory is free before anybody hears of the end
  lock.lock();
  if (failure && !s.failure)
    s.failure = failure;  // and counts on
  else
    --tasks_pending;
  item.end->mark();
  q.items.pop_front();
  s.changed.notify_all();
}

void run_queue(State& s, Queue& q) {
  pthread_setname_np(pthread_self(), "trine_stream");
  std::unique_lock lock(s.mutex);
  for (;;) {
    s.changed.wait(lock, [&] { return s.is_over || !q.items.empty(); });
    if (q.items.empty()) return;
    run_first(s, q, lock);
  }
}

}  // namespace

int Moment::generation() { return forks.load(std::memory_order_relaxed); }
bool Moment::is_past() const { return ns() != 0 || generation_ != generation(); }

void Moment::mark() {
  ns_.store(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1),
            std::memory_order_release);
}

void Moment::come() {
  mark();
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
  }  // nobody is between looking and sleeping
  s.changed.notify_all();
}

MomentPtr moment_now() {
  auto out = std::make_shared<Moment>();
  out->mark();
  return out;
}

MomentPtr add_task(int64_t queue, Task task) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (s.is_over) {
    lock.unlock();
    if (task.run) task.run();
    return moment_now();
  }
  for (const UseOf& use : task.uses) add_conflicts(use, task.after);
  Queue& q = s.queues[queue];
  Item& item = q.items.emplace_back(Item{std::move(task)});
  ++tasks_pending;
  const MomentPtr end = item.end;
  for (const UseOf& use : item.task.uses) note(use, end);
  if (!q.thread.joinable()) q.thread = std::thread([&s, &q] { run_queue(s, q); });
  lock.unlock();
  s.changed.notify_all();
  return end;
}

bool is_full(int64_t queue) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.queues[queue].items.size() >= kDepth;
}

void wait_for_room(int64_t queue) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  Queue& q = s.queues[queue];
  s.changed.wait(lock, [&] { return s.is_over || q.items.size() < kDepth; });
}

MomentPtr last_task(int64_t queue) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.queues.find(queue);
  return found == s.queues.end() || found->second.items.empty() ? nullptr : found->second.items.back().end;
}

Moments last_tasks(int64_t from, int64_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Moments out;
  for (auto at = s.queues.lower_bound(from); at != s.queues.end() && at->first < to; ++at)
    if (!at->second.items.empty()) out.push_back(at->second.items.back().end);
  return out;
}

void wait_for(const Moments& moments) {
  if (are_past(moments)) return;
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.is_over || are_past(moments); });
}

Moments conflicts(const std::vector<UseOf>& uses) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Moments out;
  for (const UseOf& use : uses) add_conflicts(use, out);
  return out;
}

void note_uses(const std::vector<UseOf>& uses, const MomentPtr& end) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const UseOf& use : uses) note(use, end);
}

std::exception_ptr take_failure() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.failure) --tasks_pending;
  return std::exchange(s.failure, nullptr);
}

void end_tasks() {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    s.is_over = true;
  }
  s.changed.notify_all();
  for (auto& [number, queue] : s.queues)  // none is added any more
    if (queue.thread.joinable() && queue.thread.get_id() != std::this_thread::get_id()) queue.thread.join();
}

}  // namespace trine::api::neuron

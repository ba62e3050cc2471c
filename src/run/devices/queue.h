// A device's queue: tasks run one after the other in the order they came, on a thread of the queue's own that starts
// with the first of them. A task may wait for others; those it waits for were queued before it, somewhere.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace trine::run {

class Queue {
 public:
  Queue() = default;
  ~Queue();  // after the last task
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void add(std::function<void()> task);
  // For a task short enough to run in the caller's thread: true if nothing is queued or running, and then nothing
  // else runs until end_inline().
  bool begin_inline();
  void end_inline();
  void drain();  // waits until all tasks so far are done

 private:
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_busy_ = false;
  bool stop_ = false;
  int drains_ = 0;  // callers in drain()
  std::thread thread_;
};

}  // namespace trine::run

// The queue's thread and the callers that run in its place.
#include "run/devices/queue.h"

namespace trine::run {

Queue::~Queue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Queue::add(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { run_tasks(); });
  changed_.notify_all();
}

bool Queue::begin_inline() {
  std::lock_guard lock(mutex_);
  if (is_busy_ || !tasks_.empty()) return false;
  return is_busy_ = true;
}

void Queue::end_inline() {
  std::lock_guard lock(mutex_);
  is_busy_ = false;
  if (!tasks_.empty() || drains_) changed_.notify_all();  // a thread with nothing to do sleeps on
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  ++drains_;
  changed_.wait(lock, [&] { return tasks_.empty() && !is_busy_; });
  --drains_;
}

void Queue::run_tasks() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (!tasks_.empty() && !is_busy_) || (stop_ && tasks_.empty()); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    is_busy_ = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    is_busy_ = false;
    if (tasks_.empty()) changed_.notify_all();
  }
}

}  // namespace trine::run

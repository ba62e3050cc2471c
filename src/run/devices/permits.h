// Permits: how many device threads may compute at once. Devices are many and processors few; a thread that waits for
// others gives its permit back. Invariant: never more permits out than processors.
#pragma once

#include <condition_variable>
#include <mutex>

namespace trine::run {

class Permits {
 public:
  explicit Permits(int count) : free_(count), count_(count) {}

  bool take();  // blocks; true if nobody else has one, so that the whole thread pool is free
  void give();
  int count() const { return count_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  const int count_;
};

}  // namespace trine::run

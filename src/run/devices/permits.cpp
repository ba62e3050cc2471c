// A counting semaphore that says whether one is alone.
#include "run/devices/permits.h"

namespace trine::run {

bool Permits::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return free_ > 0; });
  return --free_ == count_ - 1;
}

void Permits::give() {
  std::lock_guard lock(mutex_);
  ++free_;
  changed_.notify_one();
}

}  // namespace trine::run

// A list behind a lock; nothing but a flag is read while it is off.
#include "run/profile/activity.h"

#include <chrono>

namespace trine::run {

ActivityRecord& ActivityRecord::process() {
  static auto* const kRecord = new ActivityRecord;  // outlives the devices' threads
  return *kRecord;
}

void ActivityRecord::start() {
  const std::lock_guard lock(mutex_);
  activities_.clear();
  is_on_ = true;
}

std::vector<Activity> ActivityRecord::stop() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  return std::move(activities_);
}

void ActivityRecord::add(std::shared_ptr<const std::string> program, std::shared_ptr<const arch::PlanSource> source,
                         int device, int64_t took_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t end_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const std::lock_guard lock(mutex_);
  if (is_on_) activities_.push_back({std::move(program), std::move(source), device, end_ns - took_ns, took_ns});
}

}  // namespace trine::run

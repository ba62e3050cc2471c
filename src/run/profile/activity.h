// What devices did and when, recorded while somebody asks for it (a profiler): one record for the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arch/plan/plan.h"

namespace trine::run {

struct Activity {
  std::shared_ptr<const std::string> program;
  std::shared_ptr<const arch::PlanSource> source;  // null: nobody said
  int device = 0;
  int64_t start_ns = 0, took_ns = 0;  // start: of the wall clock
};

class ActivityRecord {
 public:
  static ActivityRecord& process();

  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void start();  // forgets what was there
  std::vector<Activity> stop();
  // That ends now.
  void add(std::shared_ptr<const std::string> program, std::shared_ptr<const arch::PlanSource> source, int device,
           int64_t took_ns);

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  std::vector<Activity> activities_;
};

}  // namespace trine::run

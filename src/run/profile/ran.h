// Which programs ran and how often, counted while somebody asks: one record for the process. A program whose plan says
// nothing of its source is not counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/plan/plan.h"

namespace trine::run {

struct Ran {
  std::shared_ptr<const arch::PlanSource> source;
  int64_t runs = 0;
  int64_t devices = 1;                // of one run
  std::vector<int64_t> weights = {};  // inputs that their owner says stay the same
};

class RunRecord {
 public:
  static RunRecord& process();

  bool is_on() const { return asking_.load(std::memory_order_relaxed) > 0; }
  // Who asks inside another's time looks at all() first, and counts from there: rows keep their indices.
  void start();
  void stop();  // forgets when nobody asks any more
  std::vector<Ran> all() const;
  void add(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights);

 private:
  std::atomic<int> asking_ = 0;
  mutable std::mutex mutex_;
  std::vector<Ran> rows_;
  std::unordered_map<const arch::PlanSource*, size_t> index_;
};

}  // namespace trine::run

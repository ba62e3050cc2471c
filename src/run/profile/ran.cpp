// Rows behind a lock; nothing but a number is read while nobody asks.
#include "run/profile/ran.h"

namespace trine::run {

RunRecord& RunRecord::process() {
  static auto* const kRecord = new RunRecord;  // outlives the devices' threads
  return *kRecord;
}

void RunRecord::start() { ++asking_; }

void RunRecord::stop() {
  if (--asking_ > 0) return;
  const std::lock_guard lock(mutex_);
  rows_.clear();
  index_.clear();
}

std::vector<Ran> RunRecord::all() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

void RunRecord::add(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights) {
  if (!plan.source) return;
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = index_.emplace(plan.source.get(), rows_.size());
  if (is_new) rows_.push_back({.source = plan.source, .devices = devices, .weights = std::move(weights)});
  ++rows_[found->second].runs;
}

}  // namespace trine::run

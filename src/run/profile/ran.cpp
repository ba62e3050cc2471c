// Rows behind a lock; nothing but a number is read while nobody asks.
#include "run/profile/ran.h"

#include "base/format/json.h"
#include "base/text.h"

namespace trine::run {

namespace {

std::string line_of(const RunLog& log, const Ran& r) {
  Json weights = Json::array();
  for (const int64_t w : r.weights) weights.push(w);
  return Json::object()
      .set("program", r.source->name)
      .set("source", log.keep(r.source->artifact, ".hlo"))
      .set("devices", r.devices)
      .set("weights", std::move(weights))
      .text();
}

}  // namespace

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
  logged_.clear();
}

std::vector<Ran> RunRecord::all() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

void RunRecord::log_to(std::unique_ptr<RunLog> log) {
  const bool was = this->log() != nullptr, is = log != nullptr;
  {
    const std::lock_guard lock(mutex_);
    logged_.clear();
    log_.store(log.get(), std::memory_order_release);
    if (log) logs_.push_back(std::move(log));
  }
  if (is && !was) start();
  if (was && !is) stop();
}

RunRow* RunRecord::add(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights, int device) {
  if (!plan.source) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = index_.emplace(plan.source.get(), rows_.size());
  if (is_new) rows_.push_back({.source = plan.source, .devices = devices, .weights = std::move(weights)});
  ++rows_[found->second].runs;
  RunLog* const log = this->log();
  if (!log) return nullptr;
  const auto [line, is_first] = logged_.emplace(found->second, 0);
  if (is_first)
    line->second = log->what(cat("program ", found->second), [&] { return line_of(*log, rows_[found->second]); });
  return log->add({.begin_ns = wall_ns(),
                   .took_ns = 0,
                   .kind = 0,
                   .what = line->second,
                   .device = uint32_t(device),
                   .devices = uint32_t(devices),
                   .bytes = 0});
}

void RunRecord::transferred(Transfer direction, int64_t bytes, int64_t begin_ns, int device) {
  RunLog* const log = this->log();
  if (!log) return;
  const bool is_to = direction == Transfer::to_device;
  const uint32_t what = log->what(is_to ? "to device" : "from device", [&] {
    return Json::object().set("transfer", is_to ? "to_device" : "from_device").text();
  });
  log->add({.begin_ns = begin_ns,
            .took_ns = wall_ns() - begin_ns,
            .kind = is_to ? 3u : 4u,
            .what = what,
            .device = uint32_t(device),
            .devices = 1,
            .bytes = bytes});
}

}  // namespace trine::run

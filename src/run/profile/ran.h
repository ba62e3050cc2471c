// Which programs ran and how often, counted while somebody asks: one record for the process. With a log every run goes
// there too, with its time. A program whose plan says nothing of its source is not counted.
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
#include "run/profile/run_log.h"

namespace trine::run {

struct Ran {
  std::shared_ptr<const arch::PlanSource> source;
  int64_t runs = 0;
  int64_t devices = 1;                // of one run
  std::vector<int64_t> weights = {};  // inputs that their owner says stay the same
};

enum class Transfer : uint32_t { to_device, from_device };

class RunRecord {
 public:
  static RunRecord& process();

  bool is_on() const { return asking_.load(std::memory_order_relaxed) > 0; }
  // Who asks inside another's time looks at all() first, and counts from there: rows keep their indices.
  void start();
  void stop();  // forgets when nobody asks any more
  std::vector<Ran> all() const;
  // Gives the row of the log, where its end is to be written; null without a log.
  RunRow* add(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights, int device = 0);

  // Bytes between host and device, where there is a log: since `begin_ns` of the wall clock until now.
  void transferred(Transfer direction, int64_t bytes, int64_t begin_ns, int device = 0);

  // Null: no longer. A log that was once given stays, since who runs writes its end there.
  void log_to(std::unique_ptr<RunLog> log);
  RunLog* log() const { return log_.load(std::memory_order_acquire); }  // or null

 private:
  std::atomic<int> asking_ = 0;
  mutable std::mutex mutex_;
  std::vector<Ran> rows_;
  std::unordered_map<const arch::PlanSource*, size_t> index_;
  std::unordered_map<size_t, uint32_t> logged_;  // by row: its line in the log
  std::atomic<RunLog*> log_ = nullptr;
  std::vector<std::unique_ptr<RunLog>> logs_;
};

// Logs a transfer when it goes out of scope; costs a load where there is no log.
class TransferClock {
 public:
  TransferClock(Transfer direction, int64_t bytes, int device)
      : direction_(direction), bytes_(bytes), device_(device), begin_ns_(RunRecord::process().log() ? wall_ns() : 0) {}
  TransferClock(const TransferClock&) = delete;
  TransferClock& operator=(const TransferClock&) = delete;
  ~TransferClock() {
    if (begin_ns_) RunRecord::process().transferred(direction_, bytes_, begin_ns_, device_);
  }

 private:
  Transfer direction_;
  int64_t bytes_;
  int device_;
  int64_t begin_ns_;
};

// Writes how long it took when it goes out of scope.
class RunClock {
 public:
  explicit RunClock(RunRow* row) : row_(row) {}
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;
  ~RunClock() {
    if (row_) row_->took_ns = wall_ns() - row_->begin_ns;
  }

 private:
  RunRow* row_;
};

}  // namespace trine::run

// Faults of runs at host speed: whether a run may happen on its core, and which bits of its results are wrong. One for
// the process, set at the edge (TRINE_FAULT); a run asks nothing but a flag while there are none. What only
// instructions show (semaphores, addresses on chip) shows here as the runtime would report it.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "run/counters/publish.h"
#include "run/faults/fault.h"

namespace trine::run {

class Injector {
 public:
  static Injector& process();

  // dump_folder: where a run that fails leaves a core dump; empty: nowhere.
  void set(Faults faults, std::string dump_folder, int64_t timeout_s);
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  const Faults& faults() const { return faults_; }

  struct Ruling {
    Status status = Status::success;
    Failure failure = {};  // what the run ends with; none where it happens
    int64_t run = 0;       // of the core, from 0
  };
  Ruling before(int64_t core, CoreCounters& counters, std::string_view program);
  // Flips bits of what a run on that core gave.
  void after(int64_t core, int64_t run, std::span<const std::span<std::byte>> outputs) const;

 private:
  std::atomic<bool> is_on_ = false;
  Faults faults_;
  std::string dump_folder_;
  int64_t timeout_s_ = 30;
  static constexpr size_t kCores = 65536;
  std::unique_ptr<std::atomic<int64_t>[]> runs_;  // by core
};

}  // namespace trine::run

// What a watcher needs beside the counters: the time on the chip of each program that ran. A program is compiled and
// timed once, from the source its process wrote out, in the watcher, in a thread of lowest priority.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "run/counters/sample.h"
#include "run/counters/times.h"

namespace trine::api {

std::string times_source();  // what decides times besides the program: the compiler

// The file of a written-out program: a line of JSON, then what it was made from.
Result<run::ProgramTime> time_written(const std::string& path, const std::string& instance);

// Readings, samples, and the thread that times what is wanted.
class Watcher {
 public:
  // is_awaited: somebody waits for the times, so they are not made at the lowest priority.
  explicit Watcher(std::string folder, bool is_awaited = false);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Since the last call; the first is since the processes began. period_s: when the next is meant to come.
  run::Sample sample(double period_s);
  bool is_timing() const { return pending_ > 0; }
  int64_t pending() const { return pending_; }

 private:
  void run();

  const bool is_awaited_;
  run::PageReader reader_;
  run::ProgramTimes times_;
  std::vector<run::ProcessCounters> before_;
  int64_t before_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<run::Wanted> queue_;
  std::set<std::string> asked_;
  std::atomic<int64_t> pending_ = 0;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trine::api

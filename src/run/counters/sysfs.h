// The driver's sysfs tree as ordinary folders under a path: neuron_device/neuron<n>/…, each counter a folder with
// `total` and `present`. Writing to a file clears its counter, as there; what was written since is read at the next
// update.
#pragma once

#include <map>
#include <string>

#include "run/counters/monitor.h"

namespace trine::run {

class SysfsTree {
 public:
  explicit SysfsTree(std::string root) : root_(std::move(root)) {}
  Result<void> update(const Sample& sample, const MonitoredMachine& machine);

 private:
  void put(const std::string& path, std::string text);
  void counter(const std::string& path, int64_t total, bool has_peak = false);

  struct Seen {
    std::string text = {};                 // as we wrote it
    int64_t base = 0, last = 0, peak = 0;  // of a counter: cleared at, last value
  };
  const std::string root_;
  std::map<std::string, Seen> seen_;
  std::string trouble_;
};

}  // namespace trine::run

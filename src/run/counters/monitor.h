// The document of neuron-monitor: its configuration, and one sample as JSON with its field names, plus `trine` where
// ours has more to say. Percent and counts are of the period, as there.
#pragma once

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/format/json.h"
#include "run/counters/sample.h"
#include "run/counters/shown.h"
#include "run/counters/system.h"

namespace trine::run {

struct MonitorConfig {
  double period_s = 5;
  struct Runtime {
    std::string tag_filter = ".*";
    std::vector<std::string> metrics = {};
  };
  std::vector<Runtime> runtimes = {};
  std::vector<std::string> system_metrics = {};

  static MonitorConfig usual();  // everything, each 5 s
  static Result<MonitorConfig> parse(const Json& json, std::string_view file);
};
Result<double> parse_period(std::string_view text);  // "1s", "500ms", "2m", "1.5s"

// Says what devices there are: the machine that the processes use, else the one that is meant.
struct MonitoredMachine {
  const arch::Instance* instance = nullptr;
  int64_t lnc = 1;
};

class Monitor {
 public:
  Monitor(MonitorConfig config, MonitoredMachine machine);
  // Fills in what the processes take of this host, and keeps the reading for the next.
  void read_system(Sample& sample);
  std::string text(const Sample& sample);  // the document, on one line
  Json document(const Sample& sample);     // the same as values
  const MonitorConfig::Runtime* runtime_of(
      const ProcessSample& p) const;  // the first whose filter fits its tag, or null
  const MonitorConfig& config() const { return config_; }
  const HostReading& host() const { return host_; }
  const HostReading& host_before() const { return host_before_; }
  const MonitoredMachine& machine() const { return machine_; }

 private:
  MonitorConfig config_;
  std::vector<std::regex> filters_;
  MonitoredMachine machine_;
  HostReading host_before_, host_;
  std::map<int64_t, ProcessReading> processes_;
  size_t text_bytes_ = 0;  // of the last document
};

}  // namespace trine::run

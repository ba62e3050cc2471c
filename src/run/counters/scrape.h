// Scrape: what Prometheus's page shows, from a sample, or from a document of neuron-monitor that came from anywhere.
// A number that was not there is not a number (NaN), and its row is left out.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format/json.h"
#include "run/counters/monitor.h"
#include "run/counters/shown.h"

namespace trine::run {

struct Scrape {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  using Named = std::vector<std::pair<std::string_view, double>>;  // names are the document's, or constants

  struct Collective {
    std::string_view kind = {};
    double count = 0, bytes = 0;
  };
  struct Core {
    std::string id = {};
    double utilisation = kNone, flops_per_s = kNone;
    Named memory = {}, engines = {}, statuses = {};
    double hbm_bytes_per_s = kNone, throttled = kNone, collective = kNone, watts = kNone, lost = kNone;
    double memory_limit = kNone, memory_peak = kNone, timed = kNone;
    double chip_seconds = kNone, executions = kNone, flops = kNone, joules = kNone;
    double to_device = kNone, from_device = kNone;
    std::vector<Collective> collectives = {};
    std::string labels = {}, memory_labels = {};  // as they stand in a row
  };
  struct Runtime {
    std::string tag = {}, label = {};
    std::vector<Core> cores = {};
    double host_bytes = kNone, device_bytes = kNone, cpu_user = kNone, cpu_system = kNone;
    Named errors = {}, outcomes = {}, total_latency = {}, device_latency = {};  // of the period
    double usd = kNone, usd_per_hour = kNone;
  };
  struct Ecc {
    int64_t device = 0;
    Named events = {};
  };
  std::vector<Runtime> runtimes = {};
  double vcpus = kNone, vcpu_user = kNone, vcpu_system = kNone;
  double memory_total = kNone, memory_used = kNone, swap_total = kNone, swap_used = kNone;
  std::vector<Ecc> ecc = {};
  int64_t devices = 0, cores_per_device = 0;
  std::string instance = {};  // labels of every row

  static Scrape of(const Sample& sample, const Monitor& monitor);
  static Scrape of(const Json& document);  // which must stay
};

std::string prometheus_label(std::string_view name, std::string_view value);  // name="value", escaped

}  // namespace trine::run

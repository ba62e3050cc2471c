// The document of neuron-monitor (run/counters/monitor.h, or read from a pipe) as Prometheus's text format: the metric
// names and labels of its companion script, ours behind them with trine_. A document may come from anywhere:
// what is not there is left out.
#pragma once

#include <map>
#include <string>

#include "base/format/json.h"

namespace trine::run {

// Keeps the sums of what documents count per period.
class Exposition {
 public:
  std::string text(const Json& document);

 private:
  std::map<std::string, double> sums_;  // by metric and labels
};

}  // namespace trine::run

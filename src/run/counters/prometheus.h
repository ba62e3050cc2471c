// What a monitor shows as Prometheus's text format: the metric names and labels of neuron-monitor's companion script,
// ours behind them with trine_. Families are rows of a table in prometheus.cpp.
#pragma once

#include <map>
#include <string>

#include "base/format/json.h"
#include "run/counters/monitor.h"

namespace trine::run {

struct Scrape;

// Keeps the sums of what is counted per period. A page is good until the next: its memory is kept, since that of many
// megabytes made anew costs as much as its text.
class Exposition {
 public:
  const std::string& text(const Sample& sample, const Monitor& monitor);
  // Of a document of neuron-monitor, which may come from anywhere: what is not there is left out.
  const std::string& text(const Json& document);

 private:
  const std::string& text(const Scrape& scrape);
  std::map<std::string, double> sums_;  // by metric and labels; of processes that are gone nothing is kept
  std::string page_;
};

}  // namespace trine::run

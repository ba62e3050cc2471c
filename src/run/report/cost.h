// What time on a machine costs: dollars by every known way to rent it, watts and joules of chips, host and building.
// Time comes from elsewhere; prices and watts from the instance and chip files. Work that uses some of an instance's
// cores pays for their share of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/instances/instance.h"
#include "base/format/json.h"

namespace trine::run {

struct Workload {
  double ns = 0;                           // how long it takes
  double cores = 0;                        // physical ones it occupies; 0: all of the instance
  double results = 1;                      // inferences or tokens that come of it
  double utilisation = 1;                  // of the cores: 0 idle, 1 at the chip's full power
  std::optional<double> chip_joules = {};  // of those cores, where instructions were counted; else by utilisation
};

struct RentCost {
  std::string name;                     // "on-demand"
  double usd_per_hour = 0;              // of the whole instance
  double usd = 0, usd_per_million = 0;  // of the work; of a million of its results
  std::string region = {}, date = {};   // of the price
};

struct Cost {
  std::vector<RentCost> rents = {};       // known ones, the usual first
  double chip_watts = 0, host_watts = 0;  // mean over the work; host: its share of all that is not a chip
  double wall_watts = 0;                  // both, times the building's PUE
  double chip_joules = 0, wall_joules = 0;
  double wall_joules_per_result = 0;
  bool is_estimate = false;  // a watt behind it was not published

  Json json() const;
};

Cost cost_of(const arch::Instance& instance, const Workload& workload);

std::string dollars(double usd);    // "$1.34", "$0.0000123"
std::string joules(double joules);  // "12.3 mJ"

}  // namespace trine::run

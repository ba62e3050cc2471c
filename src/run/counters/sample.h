// Sample: what processes did between two readings, as rates on the chip's clock. On that clock a program takes its time
// on the chip, and what lies between programs (the host's own work) takes what it takes here: so utilisation is what a
// monitor would show of this program on the chip, driven by a host as fast as this one. A program that is not timed so
// far counts with its time here, and `timed_share` says how much is.
#pragma once

#include <optional>
#include <vector>

#include "arch/instances/instance.h"
#include "run/counters/read.h"
#include "run/counters/times.h"

namespace trine::run {

inline constexpr std::array<double, 7> kPercentiles = {0, 1, 25, 50, 75, 99, 100};
using Percentiles = std::optional<std::array<double, 7>>;  // seconds; none: nothing ran

// Over a stretch of time, of one core or the sum over several.
struct Spent {
  double wall_ns = 0;                       // here
  double chip_ns = 0;                       // programs, on the chip
  double untimed_ns = 0;                    // programs without a time on the chip, as they took here
  double gap_ns = 0;                        // between programs
  std::array<double, kUnits> busy_ns = {};  // on the chip
  double flops = 0, hbm_bytes = 0, throttled_ns = 0, joules = 0, collective_ns = 0;
  double runs = 0, untimed_runs = 0;

  double clock_ns() const { return chip_ns + untimed_ns + gap_ns; }
  double utilisation() const;  // 0 to 1
  double share(size_t unit) const;
  double flops_per_s() const;
  double timed_share() const { return runs > 0 ? 1 - untimed_runs / runs : 1; }
  Spent& operator+=(const Spent& o);
};

struct CoreSample {
  ProcessCounters::Core now = {};
  ProcessCounters::Core before = {};  // zeros where it was not there
  Spent period = {}, total = {};      // since the last reading; since the process began
  int64_t code_bytes = 0;
  double watts = 0;  // of the core's share of its chip
};

struct ProcessSample {
  int64_t pid = 0, lnc = 1, started_ns = 0;
  std::string instance = {}, tag = {}, command = {}, runtime_version = {}, libraries = {};
  const arch::Instance* machine = nullptr;  // null: not one that is built in
  std::vector<CoreSample> cores = {};       // by id
  struct Model {
    std::string name = {}, key = {};
    double runs = 0, period_runs = 0;
    int64_t constant_bytes = 0, arena_bytes = 0, code_bytes = 0, core = 0;  // core: the first that ran it
    double ns = 0;                                                          // on the chip; 0: not timed
    std::string why_not = {};
  };
  std::vector<Model> models = {};
  Percentiles total_latency = {}, device_latency = {};
  double usd = 0, usd_per_hour = 0;     // so far, for the cores in use and the clock's time; the price of those cores
  double cpu_user = 0, cpu_system = 0;  // of the host's processors, in percent; from `system`
  int64_t resident_bytes = 0;

  Spent period() const;
  Spent total() const;
};

// Programs that ran and have no time so far: what there is to compile and time.
struct Wanted {
  std::string file = {}, key = {}, instance = {};  // file: the page's name, under which the program lies
};

struct Sample {
  double period_s = 0;
  std::vector<ProcessSample> processes = {};
  std::vector<Wanted> wanted = {};
};

Sample make_sample(const std::vector<ProcessCounters>& before, const std::vector<ProcessCounters>& now, double period_s,
                   int64_t now_ns, ProgramTimes& times);

// Has a program that ran in the period on a built-in instance neither a time nor a reason for having none? Its process
// may not have written it out yet.
bool awaits_times(const Sample& sample);

}  // namespace trine::run

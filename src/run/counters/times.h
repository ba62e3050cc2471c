// ProgramTime: what one run of a program takes on the chip, per core; written once by whoever watches first, as
// <folder>/times/<key>.<instance>.json, and read by all. Not the timing itself: api/watch.h does that.
#pragma once

#include <array>
#include <map>
#include <string>

#include "base/format/json.h"
#include "run/report/report.h"

namespace trine::run {

inline constexpr size_t kUnits = 6;  // five engines, then DMA
extern const std::array<const char*, kUnits> kUnitNames;

struct ProgramTime {
  double ns = 0;  // launch and collectives included
  double launch_ns = 0, collective_ns = 0;
  std::array<double, kUnits> busy_ns = {};
  double flops = 0, hbm_bytes = 0, throttled_ns = 0;
  double joules = 0;  // of one core, while it runs
  int64_t code_bytes = 0;
  std::string why_not = {};  // it has no time on the chip

  bool is_timed() const { return why_not.empty(); }
  void add(const Report& part);  // runs after what is there
  Json json() const;
  static Result<ProgramTime> parse(const Json& json);
};

class ProgramTimes {
 public:
  // `source`: what decides times besides the program; another compiler's times are not read.
  ProgramTimes(std::string folder, std::string source);
  const ProgramTime* find(const std::string& key, const std::string& instance);  // null: not timed so far
  Result<void> store(const std::string& key, const std::string& instance, const ProgramTime& time);

 private:
  std::string path(const std::string& key, const std::string& instance) const;
  const std::string folder_, source_;
  std::map<std::string, ProgramTime> known_;
};

}  // namespace trine::run

// Sums and shares of a sample; see shown.h.
#include "run/counters/shown.h"

#include <algorithm>

namespace trine::run {

namespace {

template <size_t kCount>
size_t index_of(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return size_t(std::find(names.begin(), names.end(), name) - names.begin());
}

// Where a status is counted, by kErrorNames and kOutcomeNames; past the last: nowhere.
struct Group {
  size_t error, outcome;
};
const std::array<Group, kStatuses>& groups() {
  static const std::array<Group, kStatuses> kGroups = [] {
    std::array<Group, kStatuses> out{};
    for (size_t s = 0; s < kStatuses; ++s)
      out[s] = {index_of(kErrorNames, status_rows()[s].error), index_of(kOutcomeNames, status_rows()[s].summary)};
    return out;
  }();
  return kGroups;
}

}  // namespace

Outcomes outcomes_of(const ProcessSample& p) {
  Outcomes out;
  for (const CoreSample& c : p.cores)
    for (size_t s = 0; s < kStatuses; ++s) {
      const int64_t n = std::max<int64_t>(c.now.statuses[s] - c.before.statuses[s], 0);
      const Group group = groups()[s];
      if (group.error < out.errors.size()) out.errors[group.error] += n;
      if (group.outcome < out.outcomes.size()) out.outcomes[group.outcome] += n;
    }
  return out;
}

CoreMemory memory_of(const CoreSample& c) {
  const auto& m = c.now.memory;
  return {m[size_t(PageMemory::constants)], c.code_bytes, m[size_t(PageMemory::temporary)], 0,
          m[size_t(PageMemory::input)] + m[size_t(PageMemory::output)]};
}

MemoryUse memory_of(const ProcessSample& p) {
  int64_t device = 0;
  for (const CoreSample& c : p.cores) {
    device += c.code_bytes;
    for (const int64_t b : c.now.memory) device += b;
  }
  return {std::max<int64_t>(p.resident_bytes - device, 0), device};
}

CoreRates rates_of(const CoreSample& c) {
  const double clock = c.period.clock_ns();
  if (!(clock > 0)) return {};
  return {c.period.hbm_bytes / clock * 1e9, std::min(1.0, c.period.throttled_ns / clock),
          std::min(1.0, c.period.collective_ns / clock)};
}

std::map<int64_t, std::array<int64_t, size_t(PageEcc::count)>> ecc_by_chip(const Sample& sample) {
  std::map<int64_t, std::array<int64_t, size_t(PageEcc::count)>> out;
  for (const ProcessSample& p : sample.processes)
    for (const CoreSample& c : p.cores)
      for (size_t e = 0; e < c.now.ecc.size(); ++e) out[c.now.chip][e] += c.now.ecc[e];
  return out;
}

}  // namespace trine::run

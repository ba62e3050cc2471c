// What is computed of a sample once for every form it is shown in: outcomes, memory, shares, and the names that
// Neuron's tools give them. Not how it is written: document.cpp, prometheus.cpp.
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "run/counters/sample.h"

namespace trine::run {

inline constexpr std::array<std::string_view, 7> kPercentileNames = {"p0", "p1", "p25", "p50", "p75", "p99", "p100"};
inline constexpr std::array<std::string_view, 6> kErrorNames = {"generic", "numerical", "transient",
                                                                "model",   "runtime",   "hardware"};
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {
    "completed", "completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue"};
inline constexpr std::array<std::string_view, size_t(PageCollective::count)> kCollectiveNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast"};
inline constexpr std::array<std::string_view, 5> kCoreMemoryNames = {
    "constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors"};

struct Outcomes {  // of the period
  std::array<int64_t, kErrorNames.size()> errors = {};
  std::array<int64_t, kOutcomeNames.size()> outcomes = {};
};
Outcomes outcomes_of(const ProcessSample& p);

using CoreMemory = std::array<int64_t, kCoreMemoryNames.size()>;  // bytes, by kCoreMemoryNames
CoreMemory memory_of(const CoreSample& c);

// What devices hold lies in the process's memory, and is the device's here: the host's is the rest.
struct MemoryUse {
  int64_t host = 0, device = 0;
};
MemoryUse memory_of(const ProcessSample& p);

struct CoreRates {  // on the chip's clock; shares 0 to 1
  double hbm_bytes_per_s = 0, throttled = 0, collective = 0;
};
CoreRates rates_of(const CoreSample& c);

// Sums over the devices of chips, for those that show whole chips.
std::map<int64_t, std::array<int64_t, size_t(PageEcc::count)>> ecc_by_chip(const Sample& sample);

}  // namespace trine::run

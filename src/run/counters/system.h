// This host, from /proc: its processors and memory, and what a process takes of them. Rates come from two readings.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trine::run {

struct CpuTimes {
  std::array<int64_t, 7> ticks = {};  // user, nice, system, idle, io_wait, irq, soft_irq
  int64_t sum() const;
};
extern const std::array<const char*, 7> kCpuParts;

struct HostReading {
  CpuTimes all = {};
  std::vector<CpuTimes> each = {};
  int64_t context_switches = 0;
  int64_t memory_total = 0, memory_used = 0, swap_total = 0, swap_used = 0;
};
HostReading read_host();

struct ProcessReading {
  int64_t user_ticks = 0, system_ticks = 0, resident_bytes = 0;
};
ProcessReading read_process(int64_t pid);  // zeros where it is gone

// In percent of the time between two readings, by kCpuParts.
std::array<double, 7> cpu_percent(const CpuTimes& before, const CpuTimes& now);

}  // namespace trine::run

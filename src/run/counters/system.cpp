// Readers of /proc/stat, /proc/meminfo and /proc/<pid>/stat; see system.h.
#include "run/counters/system.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace trine::run {

const std::array<const char*, 7> kCpuParts = {"user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"};

int64_t CpuTimes::sum() const {
  int64_t out = 0;
  for (const int64_t t : ticks) out += t;
  return out;
}

HostReading read_host() {
  HostReading out;
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.starts_with("cpu")) {
      CpuTimes t;
      for (int64_t& v : t.ticks) words >> v;
      if (name == "cpu")
        out.all = t;
      else
        out.each.push_back(t);
    } else if (name == "ctxt") {
      words >> out.context_switches;
    }
  }
  std::ifstream memory("/proc/meminfo");
  int64_t available = 0, swap_free = 0;
  for (std::string name, unit; memory >> name;) {
    int64_t kb = 0;
    memory >> kb;
    std::getline(memory, unit);
    if (name == "MemTotal:") out.memory_total = kb * 1024;
    if (name == "MemAvailable:") available = kb * 1024;
    if (name == "SwapTotal:") out.swap_total = kb * 1024;
    if (name == "SwapFree:") swap_free = kb * 1024;
  }
  out.memory_used = out.memory_total - available, out.swap_used = out.swap_total - swap_free;
  return out;
}

ProcessReading read_process(int64_t pid) {
  ProcessReading out;
  FILE* const file = std::fopen(cat("/proc/", pid, "/stat").c_str(), "r");
  if (!file) return out;
  char text[1024];
  const size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = 0;
  const std::string_view all(text, n);
  const size_t name_end = all.rfind(')');  // the name may hold anything
  if (name_end == std::string_view::npos) return out;
  long long user = 0, system = 0, pages = 0;
  if (std::sscanf(text + name_end + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %*d %*d %*d %*d %*d %*d %*u %*u %lld", &user,
                  &system, &pages) == 3)
    out = {user, system, pages * ::sysconf(_SC_PAGESIZE)};
  return out;
}

std::array<double, 7> cpu_percent(const CpuTimes& before, const CpuTimes& now) {
  std::array<double, 7> out = {};
  const auto sum = double(now.sum() - before.sum());
  for (size_t i = 0; i < out.size(); ++i) out[i] = sum > 0 ? 100 * double(now.ticks[i] - before.ticks[i]) / sum : 0;
  return out;
}

}  // namespace trine::run

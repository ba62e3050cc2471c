// What watching costs: 64 processes with 32 cores each, watched each second as JSON, for Prometheus and as a screen, in
// percent of one processor. The processes count runs of 20 programs on every core all the while.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "api/watch.h"
#include "run/counters/monitor.h"
#include "run/counters/prometheus.h"
#include "run/counters/publish.h"
#include "tools/watch/top_view.h"

using namespace trine;

namespace {

constexpr int kProcesses = 64, kCores = 32, kPrograms = 20, kSeconds = 10;
constexpr const char* kProgram = "program none\nstream sync\n  semaphore_update then s0+=1\n";

[[noreturn]] void work(const std::string& folder) {
  run::PageOptions options{.folder = folder, .instance = "trn1.32xlarge", .library = "bench"};
  for (int i = 0; i < kCores; ++i) options.cores.push_back({i, i / 2, i % 2, int64_t{16} << 30});
  const auto page = run::Page::make(options);
  if (!page) std::exit(1);
  std::vector<run::CountedProgram> programs(kPrograms);
  for (;;) {
    for (size_t core = 0; core < kCores; ++core)
      for (const run::CountedProgram& p : programs) {
        auto* const row = p.in(page->get(), [] {
          return run::CountedInfo{.name = "step", .kind = "program", .text = [] { return std::string(kProgram); }};
        });
        (*page)->count_run(*row, core, 20'000, 1, run::Status::success);
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

double cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         double(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

template <class F>
void measure(const char* name, api::Watcher& watcher, run::Monitor& monitor, const F& show) {
  const double begin = cpu_s();
  size_t bytes = 0;
  for (int s = 0; s < kSeconds; ++s) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    run::Sample sample = watcher.sample(1);
    monitor.read_system(sample);
    bytes = show(sample);
  }
  std::printf("%-12s %5.2f %% of one processor, %zu bytes each\n", name, 100 * (cpu_s() - begin) / kSeconds, bytes);
}

}  // namespace

int main() {
  char name[] = "/tmp/trine-bench-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) work(folder);
    children.push_back(child);
  }
  {
    api::Watcher watcher(folder);
    run::Monitor monitor(run::MonitorConfig::usual(), {*arch::find_instance("trn1.32xlarge"), 1});
    for (int i = 0; i < 8 || watcher.is_timing(); ++i) {  // programs are written out and timed, once
      std::this_thread::sleep_for(std::chrono::seconds(1));
      watcher.sample(1);
    }
    std::printf("%d processes of %d cores\n", kProcesses, kCores);
    measure("json", watcher, monitor, [&](const run::Sample& s) { return monitor.text(s).size(); });
    run::Exposition exposition;
    measure("prometheus", watcher, monitor, [&](const run::Sample& s) { return exposition.text(s, monitor).size(); });
    tools::TopState state;
    measure("top", watcher, monitor, [&](const run::Sample& s) {
      size_t bytes = 0;
      for (const std::string& line : tools::TopView(s, monitor, state).lines(60, 160)) bytes += line.size();
      return bytes;
    });
  }
  for (const pid_t child : children) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
}

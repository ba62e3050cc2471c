// Page: the writing side of page.h. Made once per client of devices; a run adds to it without a lock. Gone with the
// process: at exit the file is removed, after a kill whoever looks next removes it. A forked child has the numbers for
// itself and publishes nothing.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/plan/plan.h"
#include "run/counters/page.h"

namespace trine::run {

struct PageOptions {
  std::string folder = {};  // made where it is not there, for this user alone
  std::string instance = {}, library = {}, tag = {}, command = {}, runtime_version = {};
  std::string faults = {};  // injected ones that change time, for who times the programs
  int64_t lnc = 1;
  struct Core {
    int64_t id = 0, chip = 0, on_chip = 0, memory_limit = 0;
  };
  std::vector<Core> cores = {};
};

// A program to be counted. `text` gives what a watcher times, or nothing where the program is gone by then; `kind` says
// what that is: "stablehlo" or "program" (a container).
struct CountedInfo {
  std::string name = {}, kind = "stablehlo";
  int64_t devices = 1, constant_bytes = 0, arena_bytes = 0;
  std::vector<int64_t> weights = {};
  std::function<std::string()> text = {};
};

class Page {
 public:
  static Result<std::shared_ptr<Page>> make(const PageOptions& options);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  const std::string& path() const { return path_; }
  size_t core_count() const { return core_count_; }
  CoreCounters& core(size_t at) { return cores_[at]; }
  ProgramCounters& program(uint64_t number, const std::function<CountedInfo()>& info);  // the row of that program

  // `weight` runs that took so long each; how one of them ended.
  void count_run(ProgramCounters& row, size_t core, int64_t host_ns, int64_t weight, Status status);
  // One run of which the time was not taken.
  void count_untimed(ProgramCounters& row, size_t core, Status status);

 private:
  Page() = default;
  bool map(const PageOptions& options);
  void add_outcome(CoreCounters& core, Status status);
  void export_if_watched(ProgramCounters& row);
  void export_programs();
  static void on_fork();
  static void on_exit();
  void detach();  // in a child

  std::string path_;
  int fd_ = -1;
  int64_t owner_ = 0;  // pid
  std::string faults_;
  char* bytes_ = nullptr;
  size_t size_ = 0, core_count_ = 0, program_bytes_ = 0;
  CoreCounters* cores_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<uint64_t, ProgramCounters*> rows_;
  std::vector<CountedInfo> infos_;  // by row
  std::atomic<bool> is_exporting_ = false;
  std::weak_ptr<Page> self_;
};

// Where a program's runs are counted: its row in the page that asked last.
class CountedProgram {
 public:
  CountedProgram();
  // null where there is no page.
  ProgramCounters* in(Page* page, const std::function<CountedInfo()>& info) const;

 private:
  const uint64_t number_;  // no other of the process has it
  mutable std::atomic<Page*> page_ = nullptr;
  mutable std::atomic<ProgramCounters*> row_ = nullptr;
};

CountedInfo info_of(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights = {});

// Is this run's time taken, and for how many does it stand? Short programs are sampled: two looks at a clock are a
// measurable part of them.
int64_t sample_weight(const ProgramCounters& row, size_t core);

}  // namespace trine::run

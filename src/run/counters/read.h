// Reading pages of counters: those of living processes as values. A page is another process's memory and may hold
// anything; what does not fit its file is an error, never an access.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "run/counters/page.h"

namespace trine::run {

// One page as it stood. Cores nobody used are left out.
struct ProcessCounters {
  std::string file = {};  // its name in the folder
  int64_t pid = 0, started_ns = 0, lnc = 1;
  std::string instance = {}, library = {}, runtime_version = {}, tag = {}, command = {};

  struct Core {
    size_t at = 0;  // in the page
    int64_t id = 0, chip = 0, on_chip = 0;
    int64_t executions = 0, failures = 0, busy_ns = 0;
    int64_t host_to_device_bytes = 0, device_to_host_bytes = 0, device_to_device_bytes = 0;
    int64_t memory_limit = 0, memory_peak = 0;
    std::array<int64_t, size_t(PageMemory::count)> memory = {};
    std::array<int64_t, kStatuses> statuses = {};
    std::array<int64_t, size_t(PageCollective::count)> collectives = {}, collective_bytes = {}, collective_ns = {};
    std::array<int64_t, size_t(PageEcc::count)> ecc = {};
    int64_t slowed_permille = 0;
    bool lost = false;
    std::array<uint32_t, kBuckets> latency = {};
  };
  std::vector<Core> cores = {};

  struct Program {
    std::string name = {}, key = {};  // key: empty where it was not written out
    bool is_gone = false;             // and never will be
    int64_t devices = 1, constant_bytes = 0, arena_bytes = 0;
    struct PerCore {
      int64_t runs = 0, host_ns = 0;
    };
    std::vector<PerCore> per_core = {};  // by position in `cores`
  };
  std::vector<Program> programs = {};
};

Result<ProcessCounters> parse_page(std::span<const std::byte> bytes);

void remove_dead(const std::string& folder);  // pages of processes that are gone

class PageReader {
 public:
  explicit PageReader(std::string folder);
  ~PageReader();
  PageReader(const PageReader&) = delete;
  PageReader& operator=(const PageReader&) = delete;

  // Pages of living processes, by pid; tells them for how long they are watched. Dead pages are removed.
  std::vector<ProcessCounters> read(int64_t watch_ns);
  const std::string& folder() const { return folder_; }

 private:
  friend void remove_dead(const std::string& folder);
  struct Open;
  const std::string folder_;
  std::map<std::string, std::unique_ptr<Open>> open_;
};

bool is_page_name(std::string_view name);   // "<pid>.<n>"
void remove_page(const std::string& path);  // with the programs beside it

}  // namespace trine::run

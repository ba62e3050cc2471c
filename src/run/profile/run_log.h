// RunLog: what a process ran and when, in a folder that outlives it. Rows are written to mapped files, so that nothing
// is lost when the process is killed, and a run costs some hundred nanoseconds. Programs are kept once by their
// content, whatever process met them first. python/trine/profile/record.py reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace trine::run {

// As it lies in NAME.runs, after a header of the same size whose first 8 bytes are the number of rows.
struct RunRow {
  int64_t begin_ns, took_ns;  // of the wall clock
  uint32_t
      kind;  // 0: a program, 1: a collective, 2: a kernel, 3: bytes to a device, 4: from one, 5: a server's program
  uint32_t what;  // its line in NAME.jsonl
  uint32_t device, devices;
  int64_t bytes;  // of a server's program: its picoseconds on the chip
};
static_assert(sizeof(RunRow) == 40);

class RunLog {
 public:
  // `name` is unique in the folder; `head` is the first line of NAME.jsonl, a JSON object.
  static Result<std::unique_ptr<RunLog>> create(const std::string& folder, const std::string& name,
                                                std::string_view head);
  ~RunLog();

  // A line of NAME.jsonl for a key; the same number for the same key. `make` gives the line when it is new.
  template <class Make>
  uint32_t what(const std::string& key, Make make) {
    const std::lock_guard held(lock_);
    const auto found = index_.find(key);
    if (found != index_.end()) return found->second;
    return add_line(key, make());
  }
  // Writes the bytes as a file of the folder, named by their content; gives the name.
  std::string keep(std::string_view bytes, std::string_view ending) const;
  RunRow* add(const RunRow& row);  // its place, which stays; null when the disk is full

 private:
  RunLog(std::string folder, std::string name) : folder_(std::move(folder)), name_(std::move(name)) {}
  uint32_t add_line(const std::string& key, const std::string& line);
  bool grow();

  std::string folder_, name_;
  int rows_fd_ = -1, lines_fd_ = -1, process_ = 0;
  std::mutex lock_;
  std::unordered_map<std::string, uint32_t> index_;
  uint32_t lines_ = 0;
  std::vector<RunRow*> pieces_;
  size_t count_ = 0;
};

int64_t wall_ns();

}  // namespace trine::run

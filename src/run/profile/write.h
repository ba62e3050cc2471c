// ProfileWriter: writes a profile program by program, so that only one is in memory. The file appears under its name
// when it is finished, never half.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arch/instances/instance.h"
#include "run/profile/file.h"
#include "run/report/report.h"
#include "sim/core/timing.h"

namespace trine::run {

// What add() found; times of one run.
struct AddedProgram {
  uint32_t number = 0;
  bool whole = true;  // every event is in the file; else those of the program's beginning
  int64_t events = 0;
  sim::Timing timing;  // without its events
  Report report;
};

class ProfileWriter {
 public:
  static Result<std::unique_ptr<ProfileWriter>> create(const std::string& path);
  ~ProfileWriter();

  // Times the program and writes it. `program` has passed arch::verify.
  Result<AddedProgram> add(const arch::Program& program, const arch::Instance& instance, sim::TimeOptions options,
                           int64_t events_max);
  uint32_t intern(std::string_view name);
  Result<void> finish(std::string_view info, std::span<const ProfileRun> runs,
                      std::span<const ProfileTransfer> transfers = {});

 private:
  explicit ProfileWriter(std::string path) : path_(std::move(path)) {}
  Result<void> section(ProfileSection kind, uint32_t program, std::span<const std::byte> bytes);
  template <class T>
  Result<void> section(ProfileSection kind, uint32_t program, const std::vector<T>& rows) {
    return section(kind, program, std::as_bytes(std::span(rows)));
  }
  Result<void> put(std::span<const std::byte> bytes);

  std::string path_, unfinished_;
  std::FILE* file_ = nullptr;
  uint64_t at_ = 0;
  uint32_t programs_ = 0;
  std::vector<ProfileEntry> places_;
  std::unordered_map<std::string, uint32_t> index_;
  std::vector<std::string> names_;
};

}  // namespace trine::run

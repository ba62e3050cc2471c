// Sections one after the other, the table last; see write.h.
#include "run/profile/write.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "arch/program/container.h"
#include "base/text.h"
#include "run/drivers/timed/timed.h"
#include "run/profile/program_profile.h"
#include "run/profile/trace.h"

namespace trine::run {

namespace {

constexpr size_t kImageMax = size_t{256} << 20;  // a program whose constants make it larger is left out

Failure failed(const std::string& path) { return fail(Code::io, cat("could not write: ", std::strerror(errno)), path); }

}  // namespace

Result<std::unique_ptr<ProfileWriter>> ProfileWriter::create(const std::string& path) {
  std::unique_ptr<ProfileWriter> out(new ProfileWriter(path));
  out->unfinished_ = cat(path, ".", getpid(), ".part");
  out->file_ = std::fopen(out->unfinished_.c_str(), "wb");
  if (!out->file_) return failed(path);
  const ProfileHeader header{};
  TRY(out->put(std::as_bytes(std::span(&header, 1))));
  return out;
}

ProfileWriter::~ProfileWriter() {
  if (!file_) return;
  std::fclose(file_);
  unlink(unfinished_.c_str());
}

Result<void> ProfileWriter::put(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return failed(path_);
  at_ += bytes.size();
  static constexpr std::byte kZeros[8] = {};
  if (const size_t rest = at_ % 8) return put(std::span(kZeros, 8 - rest));
  return {};
}

Result<void> ProfileWriter::section(ProfileSection kind, uint32_t program, std::span<const std::byte> bytes) {
  places_.push_back({uint32_t(kind), program, at_, bytes.size()});
  return put(bytes);
}

uint32_t ProfileWriter::intern(std::string_view name) {
  const auto [found, is_new] = index_.emplace(name, uint32_t(names_.size()));
  if (is_new) names_.emplace_back(name);
  return found->second;
}

Result<AddedProgram> ProfileWriter::add(const arch::Program& program, const arch::Instance& instance,
                                        sim::TimeOptions options, int64_t events_max) {
  options.events_max = 0;
  TimedResult timed = TRY(run_timed(program, instance, options));
  if (!timed.findings.empty()) return fail(Code::invalid, timed.findings[0].text(), program.name);
  const sim::Timing recorded =
      TRY(sim::time_program(program, *instance.chip, recording(options, timed.timing, events_max)));
  const ProgramRows rows =
      program_rows(program, *instance.chip, recorded, [this](std::string_view name) { return intern(name); });
  const uint32_t number = programs_++;
  TRY(section(ProfileSection::tracks, number, rows.tracks));
  TRY(section(ProfileSection::events, number, rows.events));
  TRY(section(ProfileSection::nodes, number, rows.nodes));
  TRY(section(ProfileSection::insns, number, rows.insns));
  TRY(section(ProfileSection::memory, number, rows.memory));
  TRY(section(ProfileSection::semaphores, number, rows.semaphores));
  if (program.data.size() < kImageMax) TRY(section(ProfileSection::image, number, arch::program_bytes(program)));
  AddedProgram out{.number = number,
                   .events = int64_t(rows.events.size()),
                   .timing = std::move(timed.timing),
                   .report = std::move(timed.report)};
  out.whole = recorded.events_complete && out.events >= out.timing.instructions;
  return out;
}

Result<void> ProfileWriter::finish(std::string_view info, std::span<const ProfileRun> runs,
                                   std::span<const ProfileTransfer> transfers) {
  TRY(section(ProfileSection::info, kNone, std::as_bytes(std::span(info))));
  TRY(section(ProfileSection::runs, kNone, std::as_bytes(runs)));
  TRY(section(ProfileSection::transfers, kNone, std::as_bytes(transfers)));
  std::vector<uint64_t> ends = {names_.size(), 0};
  std::string text;
  for (const std::string& n : names_) ends.push_back((text += n).size());
  std::string names(reinterpret_cast<const char*>(ends.data()), ends.size() * 8);
  names += text;
  TRY(section(ProfileSection::names, kNone, std::as_bytes(std::span(names))));
  ProfileHeader header{{}, kProfileVersion, uint32_t(places_.size()), at_, 0};
  std::memcpy(header.magic, kProfileMagic.data(), sizeof header.magic);
  TRY(put(std::as_bytes(std::span(places_))));
  header.bytes = at_;
  if (std::fseek(file_, 0, SEEK_SET) || std::fwrite(&header, sizeof header, 1, file_) != 1) return failed(path_);
  const int closed = std::fclose(std::exchange(file_, nullptr));
  if (closed || rename(unfinished_.c_str(), path_.c_str())) {
    const Failure why = failed(path_);
    unlink(unfinished_.c_str());
    return why;
  }
  return {};
}

}  // namespace trine::run

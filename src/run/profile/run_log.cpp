// Mapped rows and appended lines; see run_log.h.
#include "run/profile/run_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/format/sha256.h"
#include "base/text.h"

namespace trine::run {

namespace {

constexpr size_t kPieceBytes = size_t{40} << 15;  // 32,768 rows; a multiple of a page
constexpr size_t kPieceRows = kPieceBytes / sizeof(RunRow);
static_assert(kPieceBytes % 4096 == 0);

}  // namespace

int64_t wall_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Result<std::unique_ptr<RunLog>> RunLog::create(const std::string& folder, const std::string& name,
                                               std::string_view head) {
  std::unique_ptr<RunLog> out(new RunLog(folder, name));
  out->process_ = getpid();
  std::error_code bad;
  std::filesystem::create_directories(folder, bad);
  const std::string base = cat(folder, "/", name);
  out->rows_fd_ = open((base + ".runs").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  out->lines_fd_ = open((base + ".jsonl").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (out->rows_fd_ < 0 || out->lines_fd_ < 0 || !out->grow())
    return fail(Code::io, cat("could not record runs: ", std::strerror(errno)), folder);
  out->count_ = 1;  // the header
  out->add_line("", std::string(head));
  return out;
}

RunLog::~RunLog() {
  for (RunRow* piece : pieces_) munmap(piece, kPieceBytes);
  if (rows_fd_ >= 0) close(rows_fd_);
  if (lines_fd_ >= 0) close(lines_fd_);
}

bool RunLog::grow() {
  const size_t at = pieces_.size() * kPieceBytes;
  if (posix_fallocate(rows_fd_, off_t(at), off_t(kPieceBytes)) != 0) return false;
  void* const piece = mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, rows_fd_, off_t(at));
  if (piece == MAP_FAILED) return false;
  pieces_.push_back(static_cast<RunRow*>(piece));
  return true;
}

uint32_t RunLog::add_line(const std::string& key, const std::string& line) {
  const std::string whole = line + "\n";
  for (size_t done = 0; done < whole.size();) {
    const ssize_t n = write(lines_fd_, whole.data() + done, whole.size() - done);
    if (n <= 0) break;  // the reader passes over what has no line
    done += size_t(n);
  }
  index_.emplace(key, lines_);
  return lines_++;
}

std::string RunLog::keep(std::string_view bytes, std::string_view ending) const {
  const std::string name = cat(hex(sha256(bytes)), ending), path = cat(folder_, "/", name);
  if (access(path.c_str(), F_OK) != 0) (void)write_file(path, bytes).has_value();
  return name;
}

RunRow* RunLog::add(const RunRow& row) {
  if (getpid() != process_) return nullptr;  // a fork has its parent's files
  const std::lock_guard held(lock_);
  if (count_ / kPieceRows >= pieces_.size() && !grow()) return nullptr;
  RunRow* const place = &pieces_[count_ / kPieceRows][count_ % kPieceRows];
  *place = row;
  ++count_;
  const uint64_t rows = count_ - 1;
  std::memcpy(pieces_[0], &rows, sizeof rows);
  return place;
}

}  // namespace trine::run

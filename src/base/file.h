// Whole files in and out, and files by names that models contain, with errors that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trine {

// A regular file that is open for reading. Pipes, devices and folders are refused, and opening never waits.
class OpenFile {
 public:
  static Result<OpenFile> open(const std::string& path);
  // By a name that a model contains: a file in `folder` or below it, whatever links lie on the way. Where `source`, the
  // model's own file, is a link (as in a hub's cache), the folder that the link leads to counts too.
  static Result<OpenFile> open_beneath(const std::string& folder, const std::string& name,
                                       const std::string& source = {});
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  int fd() const { return fd_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  Result<std::string> read(int64_t offset, int64_t length) const;

 private:
  OpenFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  static Result<OpenFile> checked(int fd, std::string path);

  int fd_ = -1;
  int64_t size_ = 0;
  std::string path_;
};

// A read-only map of a whole file; unmapped with `owner`.
Result<std::span<const std::byte>> map_file(const OpenFile& file, std::shared_ptr<const void>& owner);
// A regular file, or a pipe that the process has open (/dev/stdin, /dev/fd/N); at most what fits this machine's memory.
Result<std::string> read_file(const std::string& path);
// Replaces a regular file at once, never half, and keeps its mode; follows links; writes into pipes and devices.
Result<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace trine

// Whole files in and out; see file.h.
#include "base/file.h"

#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace trine {

namespace {

using Handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error io_error(std::string_view verb, const std::string& path) {
  const int code = errno;
  return fail(code == ENOENT ? Code::not_found : Code::io, cat("cannot ", verb, " ", path, ": ", std::strerror(code)));
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Handle file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return io_error("open", path);
  std::string out;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file.get())) out.append(buffer, n);
  if (std::ferror(file.get())) return io_error("read", path);
  return out;
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  const std::string beside = cat(path, ".", static_cast<int64_t>(::getpid()), ".new");
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (!file) return io_error("create", path);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(beside.c_str(), path.c_str()) != 0) {
    const Error error = io_error("write", path);
    std::remove(beside.c_str());
    return error;
  }
  return {};
}

}  // namespace trine

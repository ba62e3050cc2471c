// Pages on disk.
#include "serve/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"

namespace trine::serve {

namespace {

constexpr std::array<char, 8> kMagic{'T', 'R', 'N', 'K', 'V', '0', '0', '1'};

uint64_t check_of(std::span<const std::byte> bytes) {
  uint64_t h = 1469598103934665603ull;
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = (h ^ word) * 1099511628211ull, h ^= h >> 29;
  }
  return h;
}

struct Header {
  std::array<char, 8> magic;
  uint64_t model, bytes, check;
  int32_t tokens[kPageTokens];
};

}  // namespace

std::string PageStore::name(uint64_t hash) const {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx.kv", static_cast<unsigned long long>(model_),
                static_cast<unsigned long long>(hash));
  return text;
}

bool PageStore::has(const std::string& name) const { return std::filesystem::exists(folder_ + "/" + name); }

Result<void> PageStore::write(const std::string& name, std::span<const int32_t> tokens,
                              std::span<const std::byte> page) const {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  Header h{kMagic, model_, page.size(), check_of(page), {}};
  std::copy(tokens.begin(), tokens.end(), h.tokens);
  const std::string path = folder_ + "/" + name, beside = cat(path, ".", ::getpid(), ".new");
  const int file = ::open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return fail(Code::io, cat("cannot write ", beside, ": ", std::strerror(errno)));
  const auto put = [&](const void* from, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::write(file, static_cast<const char*>(from) + done, size - done);
      if (n <= 0) return false;
      done += size_t(n);
    }
    return true;
  };
  const bool whole = put(&h, sizeof h) && put(page.data(), page.size()) && ::fsync(file) == 0;
  ::close(file);
  if (!whole || std::rename(beside.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::unlink(beside.c_str());
    return fail(Code::io, cat("cannot write ", path, ": ", why));
  }
  return {};
}

Result<void> PageStore::read(const std::string& name, std::span<const int32_t> tokens,
                             std::span<std::byte> page) const {
  if (name.find('/') != std::string::npos) return fail(Code::invalid, cat("a page named ", name));
  const std::string path = folder_ + "/" + name;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(Code::not_found, cat("no page ", path));
  Header h{};
  const auto get = [&](void* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::read(file, static_cast<char*>(to) + done, size - done);
      if (n <= 0) return false;
      done += size_t(n);
    }
    return true;
  };
  const bool whole = get(&h, sizeof h) && h.magic == kMagic && h.model == model_ && h.bytes == page.size() &&
                     std::equal(tokens.begin(), tokens.end(), h.tokens, h.tokens + kPageTokens) &&
                     get(page.data(), page.size());
  ::close(file);
  if (!whole) return fail(Code::invalid, cat(path, " is no page of this model and these tokens"));
  if (check_of(page) != h.check) return fail(Code::invalid, cat(path, " is damaged"));
  return {};
}

}  // namespace trine::serve

// A cache in a directory, and locks in one: v1/<2 digits>/<hash>.entry, v1/tmp, v1/locks.
#pragma once

#include <memory>
#include <string>

#include "compile/cache/cache.h"

namespace trine::compile {

Result<std::unique_ptr<CacheStore>> open_folder(const std::string& path);

// Held until it goes away or its process ends, however that happens.
class CacheLock {
 public:
  static Result<CacheLock> take(const std::string& folder, const std::string& hash);  // waits
  CacheLock(CacheLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  CacheLock& operator=(CacheLock&&) = delete;
  ~CacheLock();

 private:
  explicit CacheLock(int file) : file_(file) {}
  int file_;
};

// Removes what ended processes left: locks nobody holds, files half written.
void sweep(const std::string& folder);

}  // namespace trine::compile

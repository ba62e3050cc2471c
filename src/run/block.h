// Blocks of this machine's memory, aligned to 64 bytes (large ones to huge pages), and a cache of blocks given back:
// a training loop asks for the same sizes over and over, and fresh pages are slow. Knows nothing of virtual devices.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace trine::run {

class BlockCache {
 public:
  explicit BlockCache(size_t bytes_max = size_t{256} << 20) : bytes_max_(bytes_max) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  Result<std::byte*> take(size_t bytes);      // contents are whatever was there
  void give(std::byte* block, size_t bytes);  // as asked for
  void clear();

 private:
  void trim(size_t bytes_max);  // with mutex_ held

  const size_t bytes_max_;
  std::mutex mutex_;
  size_t bytes_ = 0;
  uint64_t turn_ = 0;
  struct Free {
    std::byte* block;
    uint64_t turn;  // when it was given back
  };
  std::multimap<size_t, Free> free_;  // by rounded size

  // Of one to so many cache lines: aligned memory is slow to come from the system, and a few serve all small tensors.
  static constexpr size_t kSmallLines = 64, kSmallKept = 64;
  std::array<std::vector<std::byte*>, kSmallLines> small_;
};

}  // namespace trine::run

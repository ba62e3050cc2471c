// Blocks of host memory. Small ones and those of kCachedBytes and more are kept for reuse; the rest is malloc's
// business.
#include "run/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCachedBytes = size_t{64} << 10;   // below, malloc keeps blocks itself
constexpr size_t kCheckedBytes = size_t{64} << 20;  // from here on, ask the system first: it promises more than it has

size_t rounded(size_t bytes) {
  const size_t unit = bytes >= kHugePage ? kHugePage : kAlignment;
  return std::max(kAlignment, (bytes + unit - 1) / unit * unit);
}

// What the system says it can still give; everything where it does not say.
size_t available_bytes() {
  const auto text = read_file("/proc/meminfo");
  if (!text) return SIZE_MAX;
  const size_t at = text->find("MemAvailable:");
  return at == std::string::npos ? SIZE_MAX : size_t(std::atoll(text->c_str() + at + 13)) << 10;
}

Error no_memory(size_t bytes) {
  return fail(Code::out_of_memory, cat("this machine has no ", with_unit_bytes(double(bytes)),
                                       " of memory left to hold the virtual device's"));
}

}  // namespace

BlockCache::~BlockCache() {
  clear();
  for (const auto& blocks : small_)
    for (std::byte* block : blocks) std::free(block);
}

void BlockCache::clear() {
  std::lock_guard lock(mutex_);
  trim(0);
}

void BlockCache::trim(size_t bytes_max) {
  while (bytes_ > bytes_max) {
    auto oldest = std::min_element(free_.begin(), free_.end(),
                                   [](const auto& a, const auto& b) { return a.second.turn < b.second.turn; });
    bytes_ -= oldest->first;
    std::free(oldest->second.block);
    free_.erase(oldest);
  }
}

Result<std::byte*> BlockCache::take(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size < bytes) return no_memory(bytes);
  if (size <= kSmallLines * kAlignment) {
    std::lock_guard lock(mutex_);
    if (auto& blocks = small_[size / kAlignment - 1]; !blocks.empty()) {
      std::byte* block = blocks.back();
      blocks.pop_back();
      return block;
    }
  } else if (size >= kCachedBytes) {
    std::lock_guard lock(mutex_);
    if (auto found = free_.find(size); found != free_.end()) {
      std::byte* block = found->second.block;
      bytes_ -= size;
      free_.erase(found);
      return block;
    }
  }
  if (size >= kCheckedBytes && size > available_bytes()) {
    clear();
    if (size > available_bytes()) return no_memory(bytes);
  }
  auto* block = static_cast<std::byte*>(std::aligned_alloc(size >= kHugePage ? kHugePage : kAlignment, size));
  if (!block) return no_memory(bytes);
  if (size >= kHugePage) madvise(block, size, MADV_HUGEPAGE);
  return block;
}

void BlockCache::give(std::byte* block, size_t bytes) {
  const size_t size = rounded(bytes);
  if (size <= kSmallLines * kAlignment) {
    std::lock_guard lock(mutex_);
    auto& blocks = small_[size / kAlignment - 1];
    if (blocks.size() < kSmallKept) return blocks.push_back(block);
    return std::free(block);
  }
  if (size < kCachedBytes || size > bytes_max_) return std::free(block);
  std::lock_guard lock(mutex_);
  trim(bytes_max_ - size);
  free_.emplace(size, Free{block, ++turn_});
  bytes_ += size;
}

}  // namespace trine::run

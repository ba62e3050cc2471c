// The memory of keys and values: pages of 16 tokens over all layers, given out by whoever schedules.
// Not an allocator: it does not know which pages are in use. Invariant: a page's bytes are zero or were written by a
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace trine::run {

class KvMemory {
 public:
  static Result<KvMemory> make(int64_t pages, int64_t page_bytes);
  KvMemory() = default;
  KvMemory(KvMemory&& other) noexcept { swap(other); }
  KvMemory& operator=(KvMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~KvMemory();

  int64_t pages() const { return pages_; }
  int64_t page_bytes() const { return page_bytes_; }
  std::span<std::byte> page(int64_t index) { return {data_ + index * page_bytes_, size_t(page_bytes_)}; }
  std::span<const std::byte> page(int64_t index) const { return {data_ + index * page_bytes_, size_t(page_bytes_)}; }

 private:
  void swap(KvMemory& other);

  std::byte* data_ = nullptr;
  int64_t pages_ = 0, page_bytes_ = 0;
};

}  // namespace trine::run

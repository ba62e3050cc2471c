// Which pages of keys and values are in use, and by how many: sequences, the prefix cache, sessions.
// Not their memory (run::KvMemory). Invariant: a page is free exactly while nobody holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trine::serve {

class PagePool {
 public:
  explicit PagePool(int32_t pages) : holders_(size_t(pages), 0) {
    free_.reserve(size_t(pages));
    for (int32_t p = pages; p-- > 0;) free_.push_back(p);
  }

  int32_t total() const { return int32_t(holders_.size()); }
  int32_t free() const { return int32_t(free_.size()); }
  int32_t holders(int32_t page) const { return holders_[size_t(page)]; }

  int32_t take() {  // -1: none is free
    if (free_.empty()) return -1;
    const int32_t page = free_.back();
    free_.pop_back();
    holders_[size_t(page)] = 1;
    return page;
  }
  void hold(int32_t page) { ++holders_[size_t(page)]; }
  bool release(int32_t page) {  // whether it is free now
    if (--holders_[size_t(page)]) return false;
    free_.push_back(page);
    return true;
  }

 private:
  std::vector<int32_t> holders_, free_;
};

}  // namespace trine::serve

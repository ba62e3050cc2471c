// The store keeps at most kKeepBytes; buffers beyond that go back to the system.
#include "host/scratch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace trine::host {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kKeepBytes = size_t{64} << 20;

struct Store {
  std::mutex mutex;
  std::vector<Memory> free;
  size_t bytes = 0;  // of free
};

// Never destroyed: pool threads may outlive static objects.
Store& store() {
  static Store& s = *new Store;
  return s;
}

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// The smallest buffer that holds `bytes` and is not far larger.
Memory take(size_t bytes) {
  Store& s = store();
  std::lock_guard lock(s.mutex);
  size_t best = s.free.size();
  for (size_t i = 0; i < s.free.size(); ++i) {
    size_t size = s.free[i].size();
    if (size < bytes || size / 4 > bytes) continue;
    if (best == s.free.size() || size < s.free[best].size()) best = i;
  }
  if (best == s.free.size()) return {};
  Memory out = std::move(s.free[best]);
  s.free[best] = std::move(s.free.back());
  s.free.pop_back();
  s.bytes -= out.size();
  return out;
}

}  // namespace

Memory::Memory(size_t bytes) : bytes_(round_up(bytes ? bytes : 1, bytes >= kHugePage ? 4096 : kLine)) {
  bool large = bytes >= kHugePage;
  data_ = static_cast<std::byte*>(
      std::aligned_alloc(large ? kHugePage : kLine, round_up(bytes_, large ? kHugePage : kLine)));
  if (!data_) {
    bytes_ = 0;
  } else if (large) {
    madvise(data_, bytes_, MADV_HUGEPAGE);  // a hint: without it everything works
  }
}

Memory::~Memory() { std::free(data_); }

Scratch::Scratch(size_t bytes) : memory_(take(bytes)) {
  if (memory_.data()) return;
  memory_ = Memory(bytes);
  if (!memory_.data()) throw std::bad_alloc();
}

Scratch::~Scratch() {
  Store& s = store();
  std::lock_guard lock(s.mutex);
  if (s.bytes + memory_.size() > kKeepBytes) return;
  s.bytes += memory_.size();
  s.free.push_back(std::move(memory_));
}

}  // namespace trine::host

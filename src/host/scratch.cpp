// The store keeps kKeepBytes and one large buffer; what is beyond goes back to the system.
#include "host/scratch.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace trine::host {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kKeepBytes = size_t{512} << 20;
constexpr size_t kLargestKept = size_t{1} << 30;  // a step of training asks for such an arena again and again
constexpr size_t kLeast = 256;                    // bytes of the smallest buffer

// Four sizes to each power of two, so that a buffer serves every call of about its size and is found at once.
size_t size_class(size_t bytes) {
  const size_t n = std::max(bytes, kLeast);
  const size_t power = size_t(std::bit_width(n - 1)) - 1;  // n is above 2^power and at most its double
  return power * 4 + (n - 1 - (size_t{1} << power)) / (size_t{1} << (power - 2));
}
size_t class_bytes(size_t index) { return (size_t{1} << (index / 4)) / 4 * (5 + index % 4); }

struct Store {
  std::mutex mutex;
  std::array<std::vector<Memory>, 64 * 4> free;  // by size class
  size_t bytes = 0;                              // of free
  size_t largest = 0;                            // buffer given back so far
};

// Never destroyed: pool threads may outlive static objects.
Store& store() {
  static Store& s = *new Store;
  return s;
}

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

Memory take(size_t bytes) {
  Store& s = store();
  std::lock_guard lock(s.mutex);
  std::vector<Memory>& free = s.free[size_class(bytes)];
  if (free.empty()) return {};
  Memory out = std::move(free.back());
  free.pop_back();
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

Scratch::Scratch(size_t bytes) {
  if (bytes == 0) return;
  memory_ = take(bytes);
  if (memory_.data()) return;
  memory_ = Memory(class_bytes(size_class(bytes)));
  if (!memory_.data()) throw std::bad_alloc();
}

Scratch::~Scratch() {
  if (!memory_.data()) return;
  Store& s = store();
  std::lock_guard lock(s.mutex);
  s.largest = std::min(std::max(s.largest, memory_.size()), kLargestKept);
  if (s.bytes + memory_.size() > kKeepBytes + s.largest) return;
  s.bytes += memory_.size();
  s.free[size_class(memory_.size())].push_back(std::move(memory_));
}

}  // namespace trine::host

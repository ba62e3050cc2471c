// Buffers by size class. Before the system is asked for more, what lies unused the longest goes back to it.
#include "host/scratch.h"

#include "host/thresholds.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

namespace trine::host {

namespace {

namespace tuned = thresholds::scratch;

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeast = 256;  // bytes of the smallest buffer
constexpr size_t kSteps = 8;    // sizes to each power of two: at most an eighth lies idle

size_t size_class(size_t bytes) {
  const size_t n = std::max(bytes, kLeast);
  const size_t power = size_t(std::bit_width(n - 1)) - 1;  // n is above 2^power and at most its double
  return power * kSteps + (n - 1 - (size_t{1} << power)) / ((size_t{1} << power) / kSteps);
}
size_t class_bytes(size_t index) { return (size_t{1} << (index / kSteps)) / kSteps * (kSteps + 1 + index % kSteps); }

struct Buffer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint64_t stamp = 0;  // when it was given back
};

// Large ones come from the system directly, and only their whole huge pages are asked to be such: a tail of a few pages
// does not cost two megabytes.
std::byte* allocate(size_t bytes, size_t wanted) {
  if (bytes < kHugePage) return static_cast<std::byte*>(std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine));
  if (bytes > SIZE_MAX / 2) return nullptr;
  void* got = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* from = static_cast<std::byte*>(got);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(from) % kHugePage) % kHugePage;
  if (before) munmap(from, before);
  munmap(from + before + bytes, kHugePage - before);
  madvise(from + before, wanted / kHugePage * kHugePage, MADV_HUGEPAGE);  // a hint: without it everything works
  return from + before;
}

// What goes back to the system, after the store's lock is given up.
struct Old {
  std::vector<Buffer> buffers = {};

  ~Old() {
    for (const Buffer& b : buffers) b.bytes < kHugePage ? std::free(b.data) : void(munmap(b.data, b.bytes));
  }
};

class Store {
 public:
  // One of the class, or of those above it up to bytes_max; where there is none, null data and the size to ask for.
  Buffer take(size_t bytes, size_t bytes_max) {
    const size_t first = size_class(bytes), last = size_class(bytes_max);
    Old old;
    std::lock_guard lock(mutex_);
    for (size_t c = first; c <= last; ++c) {
      if (free_[c].empty()) continue;
      const Buffer out = free_[c].back();
      free_[c].pop_back();
      free_bytes_ -= out.bytes;
      used_bytes_ += out.bytes;
      return out;
    }
    trim(used_bytes_ + class_bytes(first), old);
    return {.bytes = class_bytes(first)};
  }
  void add(size_t bytes) {  // from the system
    std::lock_guard lock(mutex_);
    used_bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, used_bytes_);
  }
  void give(Buffer b) {
    Old old;
    std::lock_guard lock(mutex_);
    used_bytes_ -= b.bytes;
    largest_ = std::min(std::max(largest_, b.bytes), tuned::kLargestCached);
    b.stamp = ++stamp_;
    free_[size_class(b.bytes)].push_back(b);
    free_bytes_ += b.bytes;
    trim(used_bytes_, old);
  }
  size_t bytes() {
    std::lock_guard lock(mutex_);
    return free_bytes_;
  }
  void clear() {
    Old old;
    std::lock_guard lock(mutex_);
    trim_to(0, old);
  }

 private:
  // To what may lie unused while `used` are in use.
  void trim(size_t used, Old& old) {
    const size_t cached = std::min(tuned::kKeepBytes, used / tuned::kUsedToCached + tuned::kSlackBytes) + largest_;
    trim_to(std::min(cached, std::max(most_bytes_, used) - used + tuned::kSlackBytes), old);
  }
  void trim_to(size_t bytes, Old& old) {
    while (free_bytes_ > bytes) {
      std::deque<Buffer>* oldest = nullptr;
      for (std::deque<Buffer>& of_class : free_)
        if (!of_class.empty() && (!oldest || of_class.front().stamp < oldest->front().stamp)) oldest = &of_class;
      free_bytes_ -= oldest->front().bytes;
      old.buffers.push_back(oldest->front());
      oldest->pop_front();
    }
  }

  std::mutex mutex_;
  std::array<std::deque<Buffer>, 64 * kSteps> free_;  // by size class, the oldest first
  size_t free_bytes_ = 0, used_bytes_ = 0, most_bytes_ = 0, largest_ = 0;
  uint64_t stamp_ = 0;
};

// Never destroyed: pool threads may outlive static objects.
Store& store() {
  static Store& s = *new Store;
  return s;
}

}  // namespace

Memory::Memory(size_t bytes) : Memory(bytes, bytes) {}

Memory::Memory(size_t bytes, size_t bytes_max) {
  if (bytes > SIZE_MAX / 4) return;
  Buffer got = store().take(bytes, bytes_max);
  if (!got.data) {
    got.data = allocate(got.bytes, bytes);
    if (!got.data) {
      store().clear();
      got.data = allocate(got.bytes, bytes);
    }
    if (!got.data) return;
    store().add(got.bytes);
  }
  data_ = got.data;
  bytes_ = got.bytes;
}

Memory::~Memory() {
  if (data_) store().give({data_, bytes_});
}

size_t Memory::stored_bytes() { return store().bytes(); }
void Memory::clear_store() { store().clear(); }

Scratch::Scratch(size_t bytes) {
  if (bytes == 0) return;
  memory_ = Memory(bytes, bytes * 2);
  if (!memory_.data()) throw std::bad_alloc();
}
}  // namespace trine::host

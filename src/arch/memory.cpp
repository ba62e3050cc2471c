// Lazily touched memory, its written bits, and on-chip memories kept for the next machine; see memory.h.
#include "arch/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include <sys/mman.h>

namespace trine::arch {

namespace {

// Calls part(word, mask) for the words that a bit range covers in part and whole(first, count) for those between.
template <class Part, class Whole>
void over_words(size_t begin, size_t n, Part part, Whole whole) {
  if (!n) return;
  const size_t end = begin + n, first = begin / 64, last = end / 64;
  const uint64_t head = ~0ull << begin % 64, tail = (1ull << end % 64) - 1;
  if (first == last) return part(first, head & tail);
  size_t from = first;
  if (begin % 64) part(from++, head);
  whole(from, last - from);
  if (tail) part(last, tail);
}

}  // namespace

// Large pieces are mapped without a reservation, so that a program may place more HBM than the host has.
static constexpr size_t kMappedFrom = 1 << 20, kHugeUpTo = 64 << 20;

LazyBytes::LazyBytes(size_t n) : size_(n) {
  if (!n) return;
  if (n < kMappedFrom) {
    data_ = static_cast<std::byte*>(std::calloc(n, 1));
    return;
  }
  void* const at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(at);
  // A tile touches every partition of an on-chip memory, so small pages would be a fault for every few bytes.
  if (n <= kHugeUpTo) madvise(at, n, MADV_HUGEPAGE);
}

LazyBytes::~LazyBytes() {
  if (!data_) return;
  if (size_ < kMappedFrom)
    std::free(data_);
  else
    munmap(data_, size_);
}

void WrittenBits::set(size_t begin, size_t n) {
  over_words(
      begin, n, [&](size_t w, uint64_t m) { words_[w] |= m; },
      [&](size_t w, size_t count) { std::memset(words_ + w, 0xff, count * sizeof(uint64_t)); });
}

void WrittenBits::clear(size_t begin, size_t n) {
  over_words(
      begin, n, [&](size_t w, uint64_t m) { words_[w] &= ~m; },
      [&](size_t w, size_t count) { std::memset(words_ + w, 0, count * sizeof(uint64_t)); });
}

bool WrittenBits::all(size_t begin, size_t n) const {
  uint64_t missing = 0;
  over_words(
      begin, n, [&](size_t w, uint64_t m) { missing |= ~words_[w] & m; },
      [&](size_t w, size_t count) {
        for (size_t i = w; i < w + count; ++i) missing |= ~words_[i];
      });
  return !missing;
}

bool WrittenBits::any(size_t begin, size_t n) const {
  uint64_t found = 0;
  over_words(
      begin, n, [&](size_t w, uint64_t m) { found |= words_[w] & m; },
      [&](size_t w, size_t count) {
        for (size_t i = w; i < w + count; ++i) found |= words_[i];
      });
  return found;
}

void WrittenBits::erase(std::byte* bytes, size_t size) {
  for (size_t w = 0; w < (size + 63) / 64; ++w) {
    if (!words_[w]) continue;
    std::memset(bytes + w * 64, 0, std::min<size_t>(64, size - w * 64));
    words_[w] = 0;
  }
}

// On-chip memories that nobody has in hand, all zero.
namespace {
struct Spare {
  std::mutex mutex;
  std::vector<Memory> memories;
  static constexpr size_t kMost = 8;
};
Spare& spare() {
  static Spare* const all = new Spare;  // stays to the end, as machines may
  return *all;
}
}  // namespace

void Memory::give_back() {
  if (!pitch || size < kMappedFrom || !owned.data() || !written.held()) return;
  written.erase(bytes, size);
  const std::lock_guard held(spare().mutex);
  if (spare().memories.size() < Spare::kMost) spare().memories.push_back(std::move(*this));
  bytes = nullptr;
}

Memory Memory::make(size_t size, size_t pitch) {
  if (pitch) {
    const std::lock_guard held(spare().mutex);
    auto& all = spare().memories;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Memory& m) { return m.size == size; });
    if (found != all.end()) {
      Memory out = std::move(*found);
      all.erase(found);
      out.pitch = pitch;
      return out;
    }
  }
  Memory m;
  m.owned = LazyBytes(size);
  m.bytes = m.owned.data();
  m.size = size;
  m.pitch = pitch;
  m.written = WrittenBits(size);
  return m;
}

Memory Memory::borrow(const std::byte* bytes, size_t size) {
  Memory m;
  m.bytes = const_cast<std::byte*>(bytes);
  m.size = size;
  m.complete = true;
  return m;
}

}  // namespace trine::arch

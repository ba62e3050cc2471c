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

// Large pieces are mapped without a reservation, so that a program may allocate more HBM than the host has.
static constexpr size_t kMappedFrom = 1 << 20;

LazyBytes::LazyBytes(size_t n) : size_(n) {
  if (!n) return;
  if (n < kMappedFrom) {
    data_ = static_cast<std::byte*>(std::calloc(n, 1));
    return;
  }
  void* const at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(at);
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

bool WrittenBits::all(size_t begin, size_t n) const {
  uint64_t missing = 0;
  over_words(
      begin, n, [&](size_t w, uint64_t m) { missing |= ~words_[w] & m; },
      [&](size_t w, size_t count) {
        for (size_t i = w; i < w + count; ++i) missing |= ~words_[i];
      });
  return !missing;
}

static constexpr size_t kSide = 8;    // partitions and bytes of a word; bit 8·partition + byte
static constexpr size_t kBlock = 64;  // words

static uint64_t ones(size_t first, size_t n) { return (n >= 64 ? ~0ull : (1ull << n) - 1) << first; }

PartitionBits::PartitionBits(size_t partitions, size_t pitch)
    : across_((pitch + kSide - 1) / kSide),
      bits_((partitions + kSide - 1) / kSide * across_ * sizeof(uint64_t)),
      blocks_((across_ + kBlock - 1) / kBlock),
      touched_((partitions + kSide - 1) / kSide * blocks_) {}

// Calls f(first word, words, mask) for runs of words that are covered alike.
template <class F>
void PartitionBits::over_words(int first, int count, size_t begin, size_t n, F f) const {
  if (!n) return;
  constexpr uint64_t kEachRow = 0x0101010101010101;
  const size_t end = begin + n, low = begin % kSide, words = (end - 1) / kSide - begin / kSide + 1;
  const uint64_t head = kEachRow * ones(low, std::min(n, kSide - low));
  const uint64_t tail = kEachRow * ones(0, (end - 1) % kSide + 1);
  uint64_t* word = reinterpret_cast<uint64_t*>(bits_.data()) + begin / kSide;
  const size_t last = static_cast<size_t>(first + count);
  for (size_t p = static_cast<size_t>(first); p < last;) {
    const size_t rows = std::min(last - p, kSide - p % kSide);
    const uint64_t mask = ones(p % kSide * kSide, rows * kSide);
    uint64_t* const at = word + p / kSide * across_;
    f(at, 1, mask & head);
    if (words > 2) f(at + 1, words - 2, mask);
    if (words > 1) f(at + words - 1, 1, mask & tail);
    p += rows;
  }
}

void PartitionBits::set(int first, int count, size_t begin, size_t n) {
  if (!n || count <= 0) return;
  const size_t from = begin / (kSide * kBlock), to = (begin + n - 1) / (kSide * kBlock) + 1;
  for (size_t row = size_t(first) / kSide; row <= size_t(first + count - 1) / kSide; ++row)
    std::fill(touched_.begin() + ptrdiff_t(row * blocks_ + from), touched_.begin() + ptrdiff_t(row * blocks_ + to), 1);
  over_words(first, count, begin, n, [&](uint64_t* words, size_t many, uint64_t mask) {
    for (size_t i = 0; i < many; ++i) words[i] |= mask;
  });
}

void PartitionBits::clear(int first, int count, size_t begin, size_t n) {
  over_words(first, count, begin, n, [&](uint64_t* words, size_t many, uint64_t mask) {
    for (size_t i = 0; i < many; ++i) words[i] &= ~mask;
  });
}

bool PartitionBits::all(int first, int count, size_t begin, size_t n) const {
  uint64_t missing = 0;
  over_words(first, count, begin, n, [&](const uint64_t* words, size_t many, uint64_t mask) {
    for (size_t i = 0; i < many; ++i) missing |= ~words[i] & mask;
  });
  return !missing;
}

bool PartitionBits::any(int first, int count, size_t begin, size_t n) const {
  uint64_t found = 0;
  over_words(first, count, begin, n, [&](const uint64_t* words, size_t many, uint64_t mask) {
    for (size_t i = 0; i < many; ++i) found |= words[i] & mask;
  });
  return found;
}

// Calls f(row of 8 partitions, first word, words) for what a bit may be set in; the rest has no page to clear.
template <class F>
void PartitionBits::over_touched(F f) {
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (!touched_[i]) continue;
    touched_[i] = 0;
    const size_t first = i % blocks_ * kBlock;
    f(i / blocks_, first, std::min(kBlock, across_ - first));
  }
}

void PartitionBits::erase() {
  uint64_t* const words = reinterpret_cast<uint64_t*>(bits_.data());
  over_touched([&](size_t row, size_t first, size_t n) { std::fill_n(words + row * across_ + first, n, 0); });
}

void PartitionBits::erase(std::byte* bytes, size_t pitch) {
  uint64_t* const words = reinterpret_cast<uint64_t*>(bits_.data());
  over_touched([&](size_t row, size_t first, size_t n) {
    uint64_t* const from = words + row * across_ + first;
    uint64_t found = 0;
    for (size_t w = 0; w < n; ++w) found |= from[w];
    std::fill_n(from, n, 0);
    const size_t begin = first * kSide;
    for (size_t p = 0; p < kSide && found; ++p)
      if (found >> (p * kSide) & 0xff)
        std::memset(bytes + (row * kSide + p) * pitch + begin, 0, std::min(n * kSide, pitch - begin));
  });
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
  if (!pitch || !owned.data() || !written_in.held()) return;
  written_in.erase(bytes, pitch);
  summed_in.erase();
  open_in.erase();
  const std::lock_guard held(spare().mutex);
  auto& all = spare().memories;
  if (all.size() >= Spare::kMost) all.erase(all.begin());
  all.push_back(std::move(*this));
  bytes = nullptr;
}

Memory Memory::make(size_t size, size_t pitch, bool sums) {
  if (pitch) {
    const std::lock_guard held(spare().mutex);
    auto& all = spare().memories;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Memory& m) {
      return m.size == size && m.pitch == pitch && m.summed_in.held() == sums;
    });
    if (found != all.end()) {
      Memory out = std::move(*found);
      all.erase(found);
      return out;
    }
  }
  Memory m;
  m.owned = LazyBytes(size);
  m.bytes = m.owned.data();
  m.size = size;
  m.pitch = pitch;
  if (pitch) m.written_in = PartitionBits(size / pitch, pitch);
  if (sums) {
    m.summed_in = PartitionBits(size / pitch, pitch);
    m.open_in = PartitionBits(size / pitch, pitch);
  }
  if (!pitch) m.written = WrittenBits(size);
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

// The host memory behind simulated HBM, SBUF and PSUM, with a bit beside each byte: has anybody written it?
// Knows nothing of tiles or rows (core.h). Invariant: bytes that nobody wrote are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trine::arch {

// Zeroed bytes that take host memory only where they are touched. Empty when the host refuses.
class LazyBytes {
 public:
  explicit LazyBytes(size_t n = 0);
  ~LazyBytes();
  LazyBytes(LazyBytes&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  LazyBytes& operator=(LazyBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// One bit per byte of memory: has anybody written it?
class WrittenBits {
 public:
  explicit WrittenBits(size_t bytes = 0)
      : bits_((bytes + 63) / 64 * 8), words_(reinterpret_cast<uint64_t*>(bits_.data())) {}
  WrittenBits(WrittenBits&& other) noexcept : bits_(std::move(other.bits_)), words_(other.words_) {
    other.words_ = nullptr;
  }
  WrittenBits& operator=(WrittenBits&& other) noexcept {
    bits_ = std::move(other.bits_);
    std::swap(words_, other.words_);
    return *this;
  }
  void set(size_t begin, size_t n);
  bool all(size_t begin, size_t n) const;
  bool held() const { return words_; }

 private:
  LazyBytes bits_;
  uint64_t* words_;
};

// The same for an on-chip memory, where a tile covers the same bytes of many partitions: a word holds 8 bytes of 8
// partitions, so that a tile is a few runs of words whichever way it lies.
class PartitionBits {
 public:
  PartitionBits() = default;
  PartitionBits(size_t partitions, size_t pitch);
  // Bytes begin to begin + n of `count` partitions.
  void set(int first, int count, size_t begin, size_t n);
  void clear(int first, int count, size_t begin, size_t n);
  bool all(int first, int count, size_t begin, size_t n) const;
  bool any(int first, int count, size_t begin, size_t n) const;
  bool held() const { return bits_.data(); }
  void erase();                                // clears every bit
  void erase(std::byte* bytes, size_t pitch);  // and the bytes around each that was set

 private:
  template <class F>
  void over_words(int first, int count, size_t begin, size_t n, F f) const;
  template <class F>
  void over_touched(F f);
  size_t across_ = 0;          // words of 8 partitions
  LazyBytes bits_;             // by 8 partitions, then by 8 bytes
  size_t blocks_ = 0;          // of 64 words in a row
  std::vector<char> touched_;  // of each row's blocks: a bit may be set there
};

struct Memory {
  std::byte* bytes = nullptr;
  size_t size = 0;
  size_t pitch = 0;          // bytes per partition; 0 in HBM
  bool complete = false;     // all of it is written; `written` is not looked at
  WrittenBits written;       // in HBM
  PartitionBits written_in;  // on chip
  PartitionBits summed_in;   // PSUM: last written by a matmul, so it may be accumulated on
  PartitionBits open_in;     // PSUM: written by a matmul and not touched by another engine since
  LazyBytes owned;

  static Memory make(size_t size, size_t pitch, bool sums = false);
  // On chip: zeroed where it was written, for the next make() of this size. Fresh pages cost more than a small program.
  void give_back();
  // Bytes of the caller's that nobody will write.
  static Memory borrow(const std::byte* bytes, size_t size);
};

}  // namespace trine::arch

// Memory of this machine for tensors, panels and tiles, and the one store of what was given back: fresh pages are slow,
// and a training loop asks for the same sizes over and over. Knows nothing of virtual devices.
// Invariant: given out and stored together are at most kSlackBytes above the most that was ever given out at once.
#pragma once

#include <cstddef>
#include <utility>

namespace trine::host {

// Owned, uninitialised, aligned to a cache line or, when large, to a huge page. Null data if the system has no more.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

  static size_t stored_bytes();  // that nobody uses
  static void clear_store();     // back to the system with them

 private:
  friend class Scratch;
  Memory(size_t bytes, size_t bytes_max);  // from the store up to bytes_max

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// A buffer for the length of a call, from the store or new, null for no bytes; throws std::bad_alloc when memory is
// out.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T = std::byte>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  Memory memory_;
};

}  // namespace trine::host

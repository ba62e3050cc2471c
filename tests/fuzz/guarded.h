// Memory whose last byte is the last of a page, with a page behind it that may not be touched: reading or writing one
// byte too many ends the process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>

class Guarded {
 public:
  explicit Guarded(size_t size) : size_(size) {
    const auto page = size_t(::sysconf(_SC_PAGESIZE));
    room_ = (size + page - 1) / page * page;
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(base_ + room_, page, PROT_NONE);
    room_ += page;
    data_ = base_ + room_ - page - size;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ::munmap(base_, room_); }

  std::byte* data() { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_, room_ = 0;
  std::byte *base_ = nullptr, *data_ = nullptr;
};

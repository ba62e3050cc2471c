// Memory for lines on their way through a transform, aligned for vectors.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace trine::ops {

template <class W>
class FourierMemory {
 public:
  explicit FourierMemory(size_t count)
      : data_(static_cast<W*>(std::aligned_alloc(64, (count * sizeof(W) + 127) / 64 * 64)), &std::free) {
    if (!data_) throw std::bad_alloc();
  }
  W* data() const { return data_.get(); }

 private:
  std::unique_ptr<W, decltype(&std::free)> data_;
};

}  // namespace trine::ops

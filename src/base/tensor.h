// Tensors in host memory: dense, row-major, one element per byte or more. TensorView borrows, Tensor owns.
// Not buffers of a virtual device (run/), nor the chip's tensors (arch/program/program.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/number/element.h"

namespace trine {

using Dims = std::vector<int64_t>;

int64_t element_count(const Dims& dims);                // 1 for a scalar
Dims row_major_strides(const Dims& dims);               // in elements
std::string shape_text(Dtype dtype, const Dims& dims);  // "f32[2,3]"

struct TensorView {
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  void* data = nullptr;  // read-only where it is an input

  int64_t elements() const { return element_count(dims); }
  size_t bytes() const { return size_t(elements()) * size_t(trine::bytes(dtype)); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A value type: copies share the bytes, which nobody changes once a second owner exists.
struct Tensor {
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  std::shared_ptr<std::byte> data = {};  // aligned to 64

  static Tensor make(Dtype dtype, Dims dims);  // zeros
  TensorView view() const { return {dtype, dims, data.get()}; }
  size_t bytes() const { return view().bytes(); }
  bool operator==(const Tensor& other) const;  // same type and same bytes
};

}  // namespace trine

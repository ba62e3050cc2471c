// Dense host tensors: sizes, strides and owned memory.
#include "base/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/text.h"

namespace trine {

int64_t element_count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = step;
    step *= dims[d];
  }
  return strides;
}

std::string shape_text(Dtype dtype, const Dims& dims) {
  std::string out = cat(row(dtype).name, "[");
  for (size_t d = 0; d < dims.size(); ++d) append_text(out, cat(d ? "," : "", dims[d]));
  return out + "]";
}

Tensor Tensor::make(Dtype dtype, Dims dims) {
  Tensor t{dtype, std::move(dims), {}};
  const size_t size = (t.bytes() + 63) / 64 * 64 + 64;
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, size));
  if (!p) throw std::bad_alloc();
  std::memset(p, 0, size);
  t.data = {p, std::free};
  return t;
}

bool Tensor::operator==(const Tensor& other) const {
  return dtype == other.dtype && dims == other.dims &&
         (data == other.data || std::memcmp(data.get(), other.data.get(), bytes()) == 0);
}

}  // namespace trine

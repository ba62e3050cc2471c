// Arrays and names between NumPy and us.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace trine::api {

using BytesOut = nanobind::ndarray<nanobind::numpy, uint8_t, nanobind::ndim<1>>;

nanobind::str text(std::string_view s);
// The NumPy dtype of ours, or None. Importing ml_dtypes makes its names known to NumPy.
nanobind::object numpy_dtype(Dtype dtype);
nanobind::tuple shape_tuple(const std::vector<int64_t>& shape);
BytesOut owned_bytes(std::vector<std::byte> bytes);

// A contiguous array as a view; `keep` owns the bytes. Elements of a byte or more.
struct ArrayView {
  nanobind::object keep;
  TensorView view;
};
ArrayView array_view(nanobind::handle array);
// The same where the object offers its bytes and NumPy itself has the format, else nothing: bfloat16 arrays do not.
std::optional<TensorView> buffer_view(nanobind::handle array);
nanobind::object as_array(Tensor tensor);  // which keeps the tensor

}  // namespace trine::api

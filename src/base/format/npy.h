// .npy files: one array with its dtype and shape, as NumPy writes them. C order only; ml_dtypes' formats are read by
// their width (NumPy stores them as raw bytes), so the reader is told which dtype is expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number/number.h"
#include "base/result.h"

namespace trine {

struct Array {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

Result<Array> parse_npy(std::string_view file, Dtype expected, std::string_view name);
std::string npy_text(Dtype dtype, std::span<const int64_t> shape, std::span<const std::byte> bytes);
std::string shape_text(std::span<const int64_t> shape);  // [128,512]

}  // namespace trine

// A tensor of one number, made and read, whatever its dtype. Not for complex numbers, which are two.
#pragma once

#include <span>

#include "base/tensor.h"

namespace trine {

// As near as the dtype has it: what an integer cannot reach becomes its end. Zero where it is complex.
Tensor scalar(Dtype dtype, double value);
double number(const Tensor& tensor);  // its first element; NaN where it is complex

// Is there something, and is it one element over and over, bit by bit?
bool is_splat(std::span<const std::byte> data, size_t element_bytes);
bool is_splat(const Tensor& tensor);

}  // namespace trine

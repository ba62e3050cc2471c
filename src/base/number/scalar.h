// A tensor of one number, made and read, whatever its dtype. Not for complex numbers, which are two.
#pragma once

#include "base/tensor.h"

namespace trine {

// As near as the dtype has it: what an integer cannot reach becomes its end. Zero where it is complex.
Tensor scalar(Dtype dtype, double value);
double number(const Tensor& tensor);  // its first element; NaN where it is complex

}  // namespace trine

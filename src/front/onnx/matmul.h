// NumPy's matrix product, shared by the rows that multiply matrices.
#pragma once

#include "front/onnx/build.h"

namespace trine::front::onnx {

// Leading dims broadcast, vectors are a row on the left and a column on the right. Sums are of dtype `result`.
Made matmul(Build& b, Value lhs, Value rhs, Dtype result);

}  // namespace trine::front::onnx

// ONNX tensors as host tensors: its element types, its four ways to hold the numbers, files beside the model.
#pragma once

#include <string>

#include "base/tensor.h"
#include "front/onnx/model.h"

namespace trine::front::onnx {

Result<Dtype> dtype_of(int64_t type);  // of TensorProto.DataType
int64_t type_of(Dtype dtype);          // 0 where ONNX has none

// `model` is the file whose folder holds external data; empty: there is none.
Result<Tensor> make_tensor(const TensorProto& proto, const std::string& model);
Result<Tensor> make_dense(const SparseProto& proto, const std::string& model);

}  // namespace trine::front::onnx

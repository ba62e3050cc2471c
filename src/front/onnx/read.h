// ONNX models, opset 6 to 28, as tensor graphs: the way in. No protobuf, no onnx; nothing is run but arithmetic on
// what is known already. Shapes are static: dims the file leaves open are given in the options.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "ir/graph.h"

namespace trine::front {

struct OnnxOptions {
  std::string name = "model";  // begins the location of an error
  std::string file = {};       // the model's own; external data lie in its folder. Empty: none can be read
  // Shapes of inputs by name, and values of symbolic dims by name ({"batch", {4}}).
  std::map<std::string, Dims, std::less<>> shapes = {};
  // Initializers of at least this many bytes become parameters behind the inputs, so that changed weights are the
  // same program; -1: all are constants. Graph attributes `param_names` and `result_names` have the names.
  int64_t weights_from = -1;
};

Result<ir::Graph> read_onnx(std::string_view bytes, const OnnxOptions& options = {});

struct OnnxTensor {
  std::string name;
  Tensor tensor;
};
// What read_onnx with the same options makes parameters of, in their order.
Result<std::vector<OnnxTensor>> read_onnx_weights(std::string_view bytes, const OnnxOptions& options);
// A file of one TensorProto, as ONNX's test data has.
Result<OnnxTensor> read_onnx_tensor(std::string_view bytes);

// What a file holds, without making a graph of it.
struct OnnxSummary {
  std::string producer = {};
  int64_t ir_version = 0, opset = 0;
  struct Input {
    std::string name, type;  // "f32[batch,3,224,224]"
  };
  std::vector<Input> inputs = {}, outputs = {};
  struct Count {
    int64_t nodes = 0;
    bool is_known = false;  // this build has a row, or the model a function
  };
  std::map<std::string, Count> ops = {};  // by name, with domain where it is not ai.onnx
  int64_t weights = 0, weight_bytes = 0;
};
Result<OnnxSummary> summarize_onnx(std::string_view bytes, const OnnxOptions& options = {});

struct OnnxRow {
  std::string_view name;
  int since;
};
std::vector<OnnxRow> onnx_rows();  // the ops this build lowers, by name

}  // namespace trine::front

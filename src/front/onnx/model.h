// An ONNX file as it lies there: messages as plain structs that borrow the file's bytes. Nothing is judged yet.
// Not a schema of all of ONNX: documentation, training and quantization notes are skipped.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace trine::front::onnx {

struct TensorProto {
  std::string_view name = {};
  std::vector<int64_t> dims = {};
  int64_t type = 0;  // TensorProto.DataType; see tensor.h
  std::string_view raw = {};
  std::vector<float> floats = {};
  std::vector<double> doubles = {};
  std::vector<uint64_t> numbers = {};  // int32_data, int64_data or uint64_data
  bool has_text = false, is_external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external = {};  // location, offset, length
};

struct SparseProto {
  TensorProto values = {}, indices = {};
  std::vector<int64_t> dims = {};
};

struct GraphProto;

enum class AttributeKind : uint8_t {
  none = 0,
  real = 1,
  integer = 2,
  text = 3,
  tensor = 4,
  graph = 5,
  reals = 6,
  integers = 7,
  texts = 8,
  sparse = 11,
};

struct AttributeProto {
  std::string_view name = {};
  std::string_view refers = {};  // inside a function: the attribute of the call it stands for
  int64_t kind = 0;              // AttributeKind, or another number of the file
  float real = 0;
  int64_t integer = 0;
  std::string_view text = {};
  std::vector<float> reals = {};
  std::vector<int64_t> integers = {};
  std::vector<std::string_view> texts = {};
  std::vector<TensorProto> tensors = {};  // of kind tensor: one
  std::vector<SparseProto> sparse = {};   // of kind sparse: one
  std::vector<GraphProto> graphs;         // of kind graph: one. Not complete here: no initialiser
};

struct NodeProto {
  std::string_view op = {}, name = {}, domain = {}, overload = {};
  std::vector<std::string_view> inputs = {}, outputs = {};
  std::vector<AttributeProto> attributes;  // which hold graphs: no initialiser either
};

struct Dimension {
  int64_t value = -1;          // -1: not a number
  std::string_view name = {};  // of a symbolic dim; may be empty
};

struct ValueInfo {
  std::string_view name = {};
  bool is_tensor = false, has_shape = false;
  int64_t type = 0;
  std::vector<Dimension> dims = {};
};

struct GraphProto {
  std::string_view name = {};
  std::vector<NodeProto> nodes = {};
  std::vector<TensorProto> initializers = {};
  std::vector<SparseProto> sparse = {};
  std::vector<ValueInfo> inputs = {}, outputs = {};
};

struct OpsetImport {
  std::string_view domain = {};
  int64_t version = 0;
};

struct FunctionProto {
  std::string_view name = {}, domain = {}, overload = {};
  std::vector<std::string_view> inputs = {}, outputs = {};
  std::vector<NodeProto> nodes = {};
  std::vector<OpsetImport> opsets = {};
  std::vector<AttributeProto> defaults = {};  // of attributes a call leaves out
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string_view producer = {}, producer_version = {};
  std::vector<OpsetImport> opsets = {};
  std::vector<FunctionProto> functions = {};
  GraphProto graph = {};
  bool has_graph = false;
};

Result<ModelProto> read_model(std::string_view bytes);
Result<TensorProto> read_tensor_proto(std::string_view bytes);  // a file of one tensor, as ONNX's test data has

}  // namespace trine::front::onnx

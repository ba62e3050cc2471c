// The ways in: a graph, its weights, one tensor, or a summary of a file.
#include "front/onnx/read.h"

#include <algorithm>

#include "base/text.h"
#include "front/onnx/maker.h"
#include "front/onnx/model.h"
#include "front/onnx/tensor.h"

namespace trine::front {

namespace {

using namespace onnx;

Result<ModelProto> read(std::string_view bytes, const OnnxOptions& options) {
  if (bytes.empty())
    return fail(Code::invalid, "not an ONNX model: found nothing; expected a ModelProto", options.name);
  auto model = read_model(bytes);
  if (!model) return fail(model.error().code, cat("not an ONNX model: ", model.error().message), options.name);
  return model;
}

std::string type_text(const ValueInfo& info) {
  if (!info.is_tensor) return "no tensor";
  auto dtype = dtype_of(info.type);
  std::string out(dtype ? std::string(kDtypes[size_t(*dtype)].name) : cat("type ", info.type));
  if (!info.has_shape) return out + "[?]";
  ir::Strings parts;
  for (const Dimension& d : info.dims)
    parts.push_back(d.value >= 0 ? cat(d.value) : d.name.empty() ? "?" : std::string(d.name));
  return cat(out, "[", join(parts, ","), "]");
}

void count_nodes(const std::vector<NodeProto>& nodes, int64_t opset, const ModelProto& model, OnnxSummary& out) {
  for (const NodeProto& n : nodes) {
    const bool is_default = n.domain.empty() || n.domain == "ai.onnx";
    OnnxSummary::Count& count = out.ops[is_default ? std::string(n.op) : cat(n.domain, ".", n.op)];
    ++count.nodes;
    count.is_known = find_row(is_default ? std::string_view{} : n.domain, n.op, opset) != nullptr ||
                     std::any_of(model.functions.begin(), model.functions.end(),
                                 [&](const FunctionProto& f) { return f.name == n.op && f.domain == n.domain; });
    for (const AttributeProto& a : n.attributes)
      for (const GraphProto& g : a.graphs) count_nodes(g.nodes, opset, model, out);
  }
}

}  // namespace

Result<ir::Graph> read_onnx(std::string_view bytes, const OnnxOptions& options) {
  const ModelProto model = TRY(read(bytes, options));
  auto graph = Maker(model, options).make();
  if (!graph && graph.error().where.empty()) return fail(graph.error().code, graph.error().message, options.name);
  return graph;
}

Result<std::vector<OnnxTensor>> read_onnx_weights(std::string_view bytes, const OnnxOptions& options) {
  const ModelProto model = TRY(read(bytes, options));
  std::vector<OnnxTensor> out;
  for (const TensorProto& proto : model.graph.initializers) {
    Tensor tensor = TRY(make_tensor(proto, options.file));
    if (options.weights_from >= 0 && int64_t(tensor.bytes()) >= options.weights_from && is_float(tensor.dtype))
      out.push_back({std::string(proto.name), std::move(tensor)});
  }
  return out;
}

Result<OnnxTensor> read_onnx_tensor(std::string_view bytes) {
  const TensorProto proto = TRY(read_tensor_proto(bytes));
  return OnnxTensor{std::string(proto.name), TRY(make_tensor(proto, {}))};
}

Result<OnnxSummary> summarize_onnx(std::string_view bytes, const OnnxOptions& options) {
  const ModelProto model = TRY(read(bytes, options));
  OnnxSummary out{.producer = std::string(trim(cat(model.producer, " ", model.producer_version))),
                  .ir_version = model.ir_version};
  for (const OpsetImport& o : model.opsets)
    if (o.domain.empty() || o.domain == "ai.onnx") out.opset = std::max(out.opset, o.version);
  for (const ValueInfo& info : model.graph.inputs) {
    const auto& weights = model.graph.initializers;
    if (std::none_of(weights.begin(), weights.end(), [&](const TensorProto& t) { return t.name == info.name; }))
      out.inputs.push_back({std::string(info.name), type_text(info)});
  }
  for (const ValueInfo& info : model.graph.outputs) out.outputs.push_back({std::string(info.name), type_text(info)});
  count_nodes(model.graph.nodes, out.opset, model, out);
  for (const FunctionProto& f : model.functions) count_nodes(f.nodes, out.opset, model, out);
  for (const TensorProto& t : model.graph.initializers) {
    ++out.weights;
    const auto dtype = dtype_of(t.type);
    const ir::Type type = ir::tensor_type(dtype ? *dtype : Dtype::u8, t.dims);
    if (ir::is_countable(type)) out.weight_bytes += type.elements() * int64_t(trine::bytes(type.dtype));
  }
  return out;
}

std::vector<OnnxRow> onnx_rows() {
  std::vector<OnnxRow> out;
  for (const Row* row : all_rows())
    if (row->domain.empty()) out.push_back({row->name, row->since});
  return out;
}

}  // namespace trine::front

// The messages of ONNX, field by field. Numbers of fields are those of onnx.proto; unknown ones are skipped.
#include "front/onnx/model.h"

#include "base/text.h"
#include "front/onnx/wire.h"

namespace trine::front::onnx {

namespace {

constexpr int kNestingMax = 32;  // graphs in attributes of nodes of graphs

// Calls f(field) for each field; an error says in which message it was.
template <class F>
Result<void> each_field(std::string_view bytes, const char* message, F&& f) {
  Wire wire(bytes);
  while (!wire.at_end()) {
    auto field = wire.next();
    Result<void> done = field ? f(*field) : Result<void>(field.error());
    if (!done) {
      const std::string& what = done.error().message;
      return fail(done.error().code, what.find(" in a ") == std::string::npos ? cat(what, ", in a ", message) : what);
    }
  }
  return {};
}

Result<void> read_pair(std::string_view bytes, std::pair<std::string_view, std::string_view>& out) {
  return each_field(bytes, "StringStringEntryProto", [&](const Field& f) -> Result<void> {
    if (f.number == 1) out.first = f.bytes;
    if (f.number == 2) out.second = f.bytes;
    return {};
  });
}

Result<void> read_tensor(std::string_view bytes, TensorProto& out) {
  return each_field(bytes, "TensorProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        return append_numbers(f, out.dims);
      case 2:
        out.type = f.integer();
        return {};
      case 3:
        return fail(Code::unsupported, "a tensor in segments");
      case 4:
        return append_numbers(f, out.floats);
      case 5:
      case 7:
      case 11:
        return append_numbers(f, out.numbers);
      case 6:
        out.has_text = true;
        return {};
      case 8:
        out.name = f.bytes;
        return {};
      case 9:
        out.raw = f.bytes;
        return {};
      case 10:
        return append_numbers(f, out.doubles);
      case 13:
        return read_pair(f.bytes, out.external.emplace_back());
      case 14:
        out.is_external = f.bits == 1;
        return {};
    }
    return {};
  });
}

Result<void> read_sparse(std::string_view bytes, SparseProto& out) {
  return each_field(bytes, "SparseTensorProto", [&](const Field& f) -> Result<void> {
    if (f.number == 1) return read_tensor(f.bytes, out.values);
    if (f.number == 2) return read_tensor(f.bytes, out.indices);
    if (f.number == 3) return append_numbers(f, out.dims);
    return {};
  });
}

Result<void> read_dimension(std::string_view bytes, Dimension& out) {
  return each_field(bytes, "Dimension", [&](const Field& f) -> Result<void> {
    if (f.number == 1) out.value = f.integer();
    if (f.number == 2) out.name = f.bytes;
    return {};
  });
}

Result<void> read_shape(std::string_view bytes, ValueInfo& out) {
  out.has_shape = true;
  return each_field(bytes, "TensorShapeProto", [&](const Field& f) -> Result<void> {
    return f.number == 1 ? read_dimension(f.bytes, out.dims.emplace_back()) : Result<void>();
  });
}

Result<void> read_type(std::string_view bytes, ValueInfo& out) {
  return each_field(bytes, "TypeProto", [&](const Field& f) -> Result<void> {
    if (f.number != 1) return {};
    out.is_tensor = true;
    return each_field(f.bytes, "TypeProto.Tensor", [&](const Field& t) -> Result<void> {
      if (t.number == 1) out.type = t.integer();
      return t.number == 2 ? read_shape(t.bytes, out) : Result<void>();
    });
  });
}

Result<void> read_value_info(std::string_view bytes, ValueInfo& out) {
  return each_field(bytes, "ValueInfoProto", [&](const Field& f) -> Result<void> {
    if (f.number == 1) out.name = f.bytes;
    return f.number == 2 ? read_type(f.bytes, out) : Result<void>();
  });
}

Result<void> read_graph(std::string_view bytes, int depth, GraphProto& out);

Result<void> read_attribute(std::string_view bytes, int depth, AttributeProto& out) {
  return each_field(bytes, "AttributeProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        out.name = f.bytes;
        return {};
      case 2:
        out.real = f.real();
        return {};
      case 3:
        out.integer = f.integer();
        return {};
      case 4:
        out.text = f.bytes;
        return {};
      case 5:
        return read_tensor(f.bytes, out.tensors.emplace_back());
      case 6:
        return read_graph(f.bytes, depth + 1, out.graphs.emplace_back());
      case 7:
        return append_numbers(f, out.reals);
      case 8:
        return append_numbers(f, out.integers);
      case 9:
        out.texts.push_back(f.bytes);
        return {};
      case 20:
        out.kind = f.integer();
        return {};
      case 21:
        out.refers = f.bytes;
        return {};
      case 22:
        return read_sparse(f.bytes, out.sparse.emplace_back());
    }
    return {};
  });
}

Result<void> read_node(std::string_view bytes, int depth, NodeProto& out) {
  return each_field(bytes, "NodeProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        out.inputs.push_back(f.bytes);
        return {};
      case 2:
        out.outputs.push_back(f.bytes);
        return {};
      case 3:
        out.name = f.bytes;
        return {};
      case 4:
        out.op = f.bytes;
        return {};
      case 5:
        return read_attribute(f.bytes, depth, out.attributes.emplace_back());
      case 7:
        out.domain = f.bytes;
        return {};
      case 8:
        out.overload = f.bytes;
        return {};
    }
    return {};
  });
}

Result<void> read_graph(std::string_view bytes, int depth, GraphProto& out) {
  if (depth > kNestingMax) return fail(Code::unsupported, cat("graphs nested more than ", kNestingMax, " deep"));
  return each_field(bytes, "GraphProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        return read_node(f.bytes, depth, out.nodes.emplace_back());
      case 2:
        out.name = f.bytes;
        return {};
      case 5:
        return read_tensor(f.bytes, out.initializers.emplace_back());
      case 11:
        return read_value_info(f.bytes, out.inputs.emplace_back());
      case 12:
        return read_value_info(f.bytes, out.outputs.emplace_back());
      case 15:
        return read_sparse(f.bytes, out.sparse.emplace_back());
    }
    return {};
  });
}

Result<void> read_opset(std::string_view bytes, OpsetImport& out) {
  return each_field(bytes, "OperatorSetIdProto", [&](const Field& f) -> Result<void> {
    if (f.number == 1) out.domain = f.bytes;
    if (f.number == 2) out.version = f.integer();
    return {};
  });
}

Result<void> read_function(std::string_view bytes, FunctionProto& out) {
  return each_field(bytes, "FunctionProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        out.name = f.bytes;
        return {};
      case 4:
        out.inputs.push_back(f.bytes);
        return {};
      case 5:
        out.outputs.push_back(f.bytes);
        return {};
      case 7:
        return read_node(f.bytes, 0, out.nodes.emplace_back());
      case 9:
        return read_opset(f.bytes, out.opsets.emplace_back());
      case 10:
        out.domain = f.bytes;
        return {};
      case 11:
        return read_attribute(f.bytes, 0, out.defaults.emplace_back());
      case 13:
        out.overload = f.bytes;
        return {};
    }
    return {};
  });
}

}  // namespace

Result<ModelProto> read_model(std::string_view bytes) {
  ModelProto out;
  TRY(each_field(bytes, "ModelProto", [&](const Field& f) -> Result<void> {
    switch (f.number) {
      case 1:
        out.ir_version = f.integer();
        return {};
      case 2:
        out.producer = f.bytes;
        return {};
      case 3:
        out.producer_version = f.bytes;
        return {};
      case 7:
        out.has_graph = true;
        return read_graph(f.bytes, 0, out.graph);
      case 8:
        return read_opset(f.bytes, out.opsets.emplace_back());
      case 25:
        return read_function(f.bytes, out.functions.emplace_back());
    }
    return {};
  }));
  return out;
}

Result<TensorProto> read_tensor_proto(std::string_view bytes) {
  TensorProto out;
  TRY(read_tensor(bytes, out));
  return out;
}

}  // namespace trine::front::onnx

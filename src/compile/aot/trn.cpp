// The sections of a .trn file and the weights beside it; see trn.h.
#include "compile/aot/trn.h"

#include <cstring>
#include <filesystem>

#include "arch/container.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/aot/artifact.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

std::string_view chars(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

std::string name_in(const ir::Graph& graph, std::string_view attribute, std::string_view otherwise, size_t i) {
  if (graph.attrs.find(attribute)) {
    const ir::Strings& names = graph.attrs.strings(attribute);
    if (i < names.size() && !names[i].empty()) return names[i];
  }
  return cat(otherwise, i);
}

// Of the file that `path` names, the safetensors in it.
Result<Bytes> weights_part(const std::string& path, std::shared_ptr<const void>& owner) {
  const Bytes file = TRY(arch::map_file(path, owner));
  if (!chars(file).starts_with(arch::kProgramMagic)) return file;
  std::vector<arch::Attachment> attached;
  TRY(arch::parse_program(file, path, owner, &attached));
  for (const arch::Attachment& a : attached)
    if (a.kind == arch::SectionKind::weights) return a.bytes;
  return fail(Code::not_found, "has no weights of its own", path);
}

Result<TrnWeights> fitted(Bytes file, const std::string& path, std::shared_ptr<const void> owner,
                          const ir::Graph& graph) {
  TrnWeights out{.owner = std::move(owner), .file = path};
  std::map<std::string, size_t> params;
  for (size_t i = 0; i < graph.params.size(); ++i) params[param_name(graph, i)] = i;
  for (const NamedTensor& t : TRY(read_safetensors(file, path))) {
    const auto found = params.find(t.name);
    if (found == params.end()) return fail(Code::not_found, cat("the program has no input ", t.name), path);
    const ir::Type& type = graph.params[found->second].type();
    if (type.dtype != t.tensor.dtype || type.dims != t.tensor.dims)
      return fail(Code::invalid,
                  cat(t.name, " is ", shape_text(t.tensor.dtype, t.tensor.dims), "; expected ", ir::text(type)), path);
    TensorView view = t.tensor;
    if (reinterpret_cast<uintptr_t>(view.data) % size_t(bytes(view.dtype))) {
      Tensor& copy = out.copies.emplace_back(Tensor::make(view.dtype, view.dims));
      std::memcpy(copy.data.get(), view.data, view.bytes());
      view = copy.view();
    }
    out.values[found->second] = std::move(view);
  }
  return out;
}

}  // namespace

std::string param_name(const ir::Graph& graph, size_t i) { return name_in(graph, "param_names", "arg", i); }
std::string result_name(const ir::Graph& graph, size_t i) { return name_in(graph, "result_names", "out", i); }

Result<TrnWeights> read_weights(const std::string& path, const ir::Graph& graph) {
  std::shared_ptr<const void> owner;
  const Bytes bytes = TRY(weights_part(path, owner));
  return fitted(bytes, path, owner, graph);
}

Result<std::string> weights_text(const TrnWeights& weights, const ir::Graph& graph) {
  std::vector<NamedTensor> tensors;
  for (const auto& [i, view] : weights.values) tensors.push_back({param_name(graph, i), view});
  return write_safetensors(tensors);
}

Result<void> write_trn(const Trn& trn, const std::string& path, WeightsIn where) {
  Json loading = Json::object().set("version", 1).set("inputs", inputs_json(trn.made.inputs));
  loading.set("flags",
              Json::object().set("auto_cast", trn.flags.auto_cast).set("auto_cast_type", trn.flags.auto_cast_type));
  std::string inside;
  if (!trn.weights.values.empty()) {
    if (where == WeightsIn::file) {
      inside = TRY(weights_text(trn.weights, trn.graph));
    } else {
      std::error_code none;
      const fs::path folder = fs::absolute(path, none).parent_path();
      loading.set("weights", fs::absolute(trn.weights.file, none).lexically_relative(folder).string());
    }
  }
  const std::string head = loading.text(), graph = ir::text(trn.graph);
  std::vector<arch::Attachment> attached = {{arch::SectionKind::loading, std::as_bytes(std::span(head))},
                                            {arch::SectionKind::graph, std::as_bytes(std::span(graph))}};
  if (!inside.empty()) attached.push_back({arch::SectionKind::weights, std::as_bytes(std::span(inside))});
  const auto bytes = arch::program_bytes(trn.made.program, attached);
  return write_file(path, chars(bytes));
}

bool is_trn(const std::string& path) {
  std::shared_ptr<const void> owner;
  const auto file = arch::map_file(path, owner);
  return path.ends_with(".trn") && file && chars(*file).starts_with(arch::kProgramMagic);
}

Result<Trn> read_trn(const std::string& path) {
  std::shared_ptr<const void> owner;
  const Bytes file = TRY(arch::map_file(path, owner));
  std::vector<arch::Attachment> attached;
  Trn out;
  out.made.program = TRY(arch::parse_program(file, path, owner, &attached));
  const auto part = [&](arch::SectionKind kind) {
    for (const arch::Attachment& a : attached)
      if (a.kind == kind) return a.bytes;
    return Bytes{};
  };
  const Bytes graph = part(arch::SectionKind::graph), head = part(arch::SectionKind::loading);
  if (graph.empty() || head.empty())
    return fail(Code::invalid, "holds a program but not what it was compiled from; `trine run` runs it as it is", path);
  out.graph = TRY(read_graph(chars(graph), path));
  const Json loading = TRY(parse_json(chars(head), path));
  if (const Json* const inputs = loading.find("inputs")) out.made.inputs = TRY(parse_inputs(*inputs));
  if (out.made.inputs.size() != out.graph.params.size())
    return fail(Code::invalid, cat("prepares ", out.made.inputs.size(), " inputs of ", out.graph.params.size()), path);
  if (const Json* const flags = loading.find("flags")) {
    const auto text = [&](const char* name, std::string_view otherwise) {
      const Json* const found = flags->find(name);
      return found ? found->string() : std::string(otherwise);
    };
    out.flags = {text("auto_cast", "none"), text("auto_cast_type", "bf16")};
  }
  if (const Bytes inside = part(arch::SectionKind::weights); !inside.empty())
    out.weights = TRY(fitted(inside, path, owner, out.graph));
  else if (const Json* const other = loading.find("weights"))
    out.weights = TRY(read_weights((fs::path(path).parent_path() / other->string()).string(), out.graph));
  return out;
}

}  // namespace trine::compile

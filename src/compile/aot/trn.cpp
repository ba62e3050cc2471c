// The sections of a .trn file and the weights beside it; see trn.h.
#include "compile/aot/trn.h"

#include <cstring>
#include <filesystem>

#include "arch/program/container.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/aot/artifact.h"
#include "compile/aot/parts.h"
#include "compile/device/passes/narrow_words.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr int64_t kVersion = 2;  // 1: of one program

std::string_view chars(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

std::string name_in(const ir::Graph& graph, std::string_view attribute, std::string_view otherwise, size_t i) {
  if (graph.attrs.find(attribute)) {
    const ir::Strings& names = graph.attrs.strings(attribute);
    if (i < names.size() && !names[i].empty()) return names[i];
  }
  return cat(otherwise, i);
}

// The safetensors in a file: all of it, or a section.
Result<Bytes> weights_part(const OpenFile& from, std::shared_ptr<const void>& owner) {
  const std::string& path = from.path();
  const Bytes file = TRY(map_file(from, owner));
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

Result<TrnWeights> read_weights(const OpenFile& file, const ir::Graph& graph) {
  std::shared_ptr<const void> owner;
  const Bytes bytes = TRY(weights_part(file, owner));
  return fitted(bytes, file.path(), owner, graph);
}
Result<TrnWeights> read_weights(const std::string& path, const ir::Graph& graph) {
  return read_weights(TRY(OpenFile::open(path)), graph);
}

Result<std::string> weights_text(const TrnWeights& weights, const ir::Graph& graph) {
  std::vector<NamedTensor> tensors;
  for (const auto& [i, view] : weights.values) tensors.push_back({param_name(graph, i), view});
  return write_safetensors(tensors);
}

std::optional<std::string> name_beside(const std::string& weights, const std::string& path) {
  std::error_code none;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, none).parent_path(), none);
  const fs::path name = fs::weakly_canonical(fs::absolute(weights, none), none).lexically_relative(folder);
  if (name.empty() || *name.begin() == "..") return {};
  return name.string();
}

Result<void> write_trn(const Trn& trn, const std::string& path, WeightsIn where) {
  const DeviceProgram* const only = trn.made.only();
  std::string programs;
  Json loading = Json::object().set("version", only ? 1 : kVersion);
  if (only)
    loading.set("inputs", inputs_json(only->inputs));
  else
    loading.set("split", parts_json(trn.made, programs));
  loading.set("flags",
              Json::object().set("auto_cast", trn.flags.auto_cast).set("auto_cast_type", trn.flags.auto_cast_type));
  std::string inside;
  if (!trn.weights.values.empty()) {
    if (where == WeightsIn::file) {
      inside = TRY(weights_text(trn.weights, trn.graph));
    } else {
      const auto name = name_beside(trn.weights.file, path);
      if (!name)
        return fail(Code::invalid, cat("the weights lie in ", trn.weights.file, "; expected a file in the folder of ",
                                       path, " or below it, where alone they are looked for"));
      loading.set("weights", *name);
    }
  }
  const std::string head = loading.text(), graph = ir::text(trn.graph);
  std::vector<arch::Attachment> attached = {{arch::SectionKind::loading, std::as_bytes(std::span(head))},
                                            {arch::SectionKind::graph, std::as_bytes(std::span(graph))}};
  if (!inside.empty()) attached.push_back({arch::SectionKind::weights, std::as_bytes(std::span(inside))});
  if (!only) attached.push_back({arch::SectionKind::parts, std::as_bytes(std::span(programs))});
  arch::Program none;
  none.name = trn.graph.name;
  none.chip = trn.chip;
  const auto bytes = arch::program_bytes(only ? only->program : none, attached);
  return write_file(path, chars(bytes));
}

bool is_trn(const std::string& path) {
  std::shared_ptr<const void> owner;
  const bool is_named = path.ends_with(".trn") || path.ends_with(".neff");
  const auto file = OpenFile::open(path);
  const auto bytes = is_named && file ? map_file(*file, owner) : Bytes{};
  return bytes && chars(*bytes).starts_with(arch::kProgramMagic);
}

// What inputs and parts are in: the types that the program was made from.
static Result<SplitProgram> read_made(const Json& loading, arch::Program program, Bytes programs, const Trn& trn,
                                      const std::string& name, const std::shared_ptr<const void>& owner) {
  const ir::Graph graph = narrow_words(trn.graph);
  if (const Json* const split = loading.find("split"))
    return parse_parts(*split, programs, signature_of(graph), name, owner);
  DeviceProgram only{.program = std::move(program)};
  if (const Json* const inputs = loading.find("inputs")) only.inputs = TRY(parse_inputs(*inputs));
  if (only.inputs.size() != graph.params.size())
    return fail(Code::invalid, cat("prepares ", only.inputs.size(), " inputs of ", graph.params.size()), name);
  SplitProgram out = whole(std::move(only), graph);
  TRY(check_results(out.parts[0]));
  return out;
}

Result<Trn> parse_trn(Bytes file, const std::string& path, std::shared_ptr<const void> owner) {
  std::vector<arch::Attachment> attached;
  Trn out;
  arch::Program program = TRY(arch::parse_program(file, path, owner, &attached));
  out.chip = program.chip;
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
  if (const Json* const version = loading.find("version"); version && version->integer() > kVersion)
    return fail(Code::unsupported, cat("is of version ", version->integer(), "; this build reads up to ", kVersion),
                path);
  out.made = TRY(read_made(loading, std::move(program), part(arch::SectionKind::parts), out, path, owner));
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
    out.weights.file = other->string();
  return out;
}

Result<Trn> read_trn(const std::string& path) {
  std::shared_ptr<const void> owner;
  const Bytes file = TRY(map_file(TRY(OpenFile::open(path)), owner));
  Trn out = TRY(parse_trn(file, path, owner));
  if (!out.weights.file.empty() && out.weights.values.empty())
    out.weights = TRY(read_weights(
        TRY(OpenFile::open_beneath(fs::path(path).parent_path().string(), out.weights.file, path)), out.graph));
  return out;
}

}  // namespace trine::compile

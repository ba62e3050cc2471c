// .trn: a model compiled ahead of time. One Program file with what loading it wants: how inputs are prepared, the graph
// it was made from, and its weights, in the file itself or in another that several programs share. Where the host runs
// parts of the model, its program is empty and those of the parts lie in a section (parts.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/format/safetensors.h"
#include "compile/device/device.h"

namespace trine::compile {

struct TrnFlags {
  std::string auto_cast = "none", auto_cast_type = "bf16";
};

// Values of parameters, by their number. The bytes live as long as `owner`.
struct TrnWeights {
  std::map<size_t, TensorView> values = {};
  std::shared_ptr<const void> owner = {};
  std::string file = {};            // where they lie; empty: nowhere yet
  std::vector<Tensor> copies = {};  // of those that lie where their numbers cannot be read
};

struct Trn {
  SplitProgram made = {};
  std::string chip = {};
  ir::Graph graph = {};  // before anything was done to it; weights are parameters
  TrnFlags flags = {};
  TrnWeights weights = {};
};

// Name of a parameter: the model's own, else arg0, arg1, …
std::string param_name(const ir::Graph& graph, size_t i);
std::string result_name(const ir::Graph& graph, size_t i);

// Where weights go: into the file; or they lie in `weights.file` already, which the new file then names.
enum class WeightsIn : uint8_t { file, other };
// How a .trn at `path` may name a file of weights: one in its folder or below it, and no other.
std::optional<std::string> name_beside(const std::string& weights, const std::string& path);
Result<void> write_trn(const Trn& trn, const std::string& path, WeightsIn where);
Result<Trn> read_trn(const std::string& path);
// The same of bytes that `owner` keeps alive; weights in another file are left there, by the name in `weights.file`.
Result<Trn> parse_trn(std::span<const std::byte> bytes, const std::string& name, std::shared_ptr<const void> owner);
bool is_trn(const std::string& path);  // a Program file with a graph in it

// Weights of a .safetensors or .trn file for the graph's parameters, by name; what does not fit is refused.
Result<TrnWeights> read_weights(const OpenFile& file, const ir::Graph& graph);
Result<TrnWeights> read_weights(const std::string& path, const ir::Graph& graph);
Result<std::string> weights_text(const TrnWeights& weights, const ir::Graph& graph);

}  // namespace trine::compile

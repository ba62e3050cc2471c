// The conversion of a model while it runs: scopes of names, nodes in order, calls of the model's own functions.
// Not an interface: read.h is. Invariant: a scope holds every name defined so far on the current path.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "front/onnx/call.h"
#include "front/onnx/read.h"

namespace trine::front::onnx {

struct Scope {
  const Scope* around = nullptr;  // names of a graph are seen in the graphs of its nodes' attributes
  std::unordered_map<std::string_view, Item> items = {};

  const Item* find(std::string_view name) const;
};

class Maker {
 public:
  Maker(const ModelProto& model, const OnnxOptions& options) : model_(model), options_(options) {}

  Result<ir::Graph> make();

  // A graph of an attribute with these inputs, in the current scope; what it gives.
  Result<std::vector<Item>> body(const GraphProto& graph, std::span<const Item> inputs);
  // Values of the current scope that a graph uses, and the names they have there.
  std::vector<std::string_view> used_names(const GraphProto& graph) const;
  Item lookup(std::string_view name) const;
  // Puts other values under names for as long as it lives.
  class Rename {
   public:
    Rename(Maker& maker, const std::vector<std::string_view>& names, const Values& values);
    ~Rename();

   private:
    Maker& maker_;
    Scope scope_;
  };

  const std::string& file() const { return options_.file; }
  const AttributeProto* outer_attribute(std::string_view name) const;  // of the function call being read

 private:
  Result<void> opsets();
  Result<void> parameters();
  Result<Dims> dims_of(const ValueInfo& info) const;
  Result<void> initializers(const GraphProto& graph, Scope& scope);
  Result<void> nodes(const std::vector<NodeProto>& nodes, Scope& scope);
  Result<void> node(const NodeProto& node, Scope& scope);
  Result<std::vector<Item>> lower(const NodeProto& node, std::vector<Item> inputs);
  Result<std::vector<Item>> call(const FunctionProto& function, const NodeProto& node, std::vector<Item> inputs);
  Result<std::vector<Item>> outputs(const std::vector<std::string_view>& names, const Scope& scope) const;
  const FunctionProto* find_function(const NodeProto& node) const;
  int64_t opset_of(std::string_view domain) const;

  const ModelProto& model_;
  const OnnxOptions& options_;
  Build build_;
  Scope* scope_ = nullptr;
  // Of the function being read; of the model outside of any.
  const std::vector<OpsetImport>* opsets_ = nullptr;
  std::vector<AttributeProto> const* attributes_ = nullptr;
  const FunctionProto* function_ = nullptr;
  int depth_ = 0;
  int64_t count_ = 0;
};

}  // namespace trine::front::onnx

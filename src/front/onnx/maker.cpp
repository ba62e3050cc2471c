// A model's graph, scope by scope and node by node. Errors name the node, its op, what was found and what expected.
#include "front/onnx/maker.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/stop.h"
#include "base/text.h"
#include "front/onnx/tensor.h"

namespace trine::front::onnx {

namespace {

constexpr int kNestingMax = 64;
constexpr int64_t kOpsetMin = 6, kOpsetMax = 28;

bool is_default(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

std::string full_name(const NodeProto& node) {
  return is_default(node.domain) ? std::string(node.op) : cat(node.domain, ".", node.op);
}

// The node's name; where it has none, the first value it makes.
std::string location_of(const NodeProto& node) {
  if (!node.name.empty()) return std::string(node.name);
  for (std::string_view output : node.outputs)
    if (!output.empty()) return cat("the node of `", output, "`");
  return "a node without a name";
}

std::string dims_text(const ValueInfo& info) {
  std::string out = "[";
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const Dimension& d = info.dims[i];
    append_text(out, cat(i ? "," : "", d.value >= 0 ? cat(d.value) : d.name.empty() ? "?" : std::string(d.name)));
  }
  return out + "]";
}

void collect(const GraphProto& graph, std::set<std::string_view>& used) {
  for (const NodeProto& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeProto& a : node.attributes)
      for (const GraphProto& g : a.graphs) collect(g, used);
  }
  for (const ValueInfo& out : graph.outputs) used.insert(out.name);
}

}  // namespace

const Item* Scope::find(std::string_view name) const {
  for (const Scope* s = this; s != nullptr; s = s->around)
    if (auto at = s->items.find(name); at != s->items.end()) return &at->second;
  return nullptr;
}

Maker::Rename::Rename(Maker& maker, const std::vector<std::string_view>& names, const Values& values) : maker_(maker) {
  for (size_t i = 0; i < names.size(); ++i) scope_.items[names[i]] = {.value = values[i]};
  scope_.around = maker.scope_;
  maker.scope_ = &scope_;
}
Maker::Rename::~Rename() { maker_.scope_ = const_cast<Scope*>(scope_.around); }

Item Maker::lookup(std::string_view name) const {
  const Item* found = scope_->find(name);
  return found != nullptr ? *found : Item{};
}

std::vector<std::string_view> Maker::used_names(const GraphProto& graph) const {
  std::set<std::string_view> used;
  collect(graph, used);
  std::vector<std::string_view> out;
  for (std::string_view name : used)
    if (!name.empty() && lookup(name)) out.push_back(name);
  return out;
}

int64_t Maker::opset_of(std::string_view domain) const {
  int64_t version = 0;
  for (const OpsetImport& o : *opsets_)
    if (o.domain == domain || (is_default(o.domain) && is_default(domain))) version = std::max(version, o.version);
  return version;
}

const AttributeProto* Maker::outer_attribute(std::string_view name) const {
  if (attributes_ != nullptr)
    for (const AttributeProto& a : *attributes_)
      if (a.name == name) return &a;
  if (function_ != nullptr)
    for (const AttributeProto& a : function_->defaults)
      if (a.name == name) return &a;
  return nullptr;
}

Result<void> Maker::opsets() {
  opsets_ = &model_.opsets;
  const int64_t version = opset_of("");
  if (version == 0) return {};  // functions of other domains alone
  if (version < kOpsetMin || version > kOpsetMax)
    return fail(Code::unsupported, cat("opset ", version, "; this build reads ", kOpsetMin, " to ", kOpsetMax,
                                       version < kOpsetMin ? " (onnx.version_converter raises it)" : ""));
  return {};
}

// Dims of an input: those given for its name, else the file's, with symbolic ones by their names.
Result<Dims> Maker::dims_of(const ValueInfo& info) const {
  const auto given = options_.shapes.find(info.name);
  const auto example = [&] { return cat("`--shape ", info.name, "=", info.dims.size() > 1 ? "1x128" : "1", "`"); };
  if (given == options_.shapes.end() && !info.has_shape)
    return fail(Code::invalid, cat("input `", info.name, "` has no shape in the file; give it with ", example()));
  if (given != options_.shapes.end() && info.has_shape && given->second.size() != info.dims.size())
    return fail(Code::invalid, cat("input `", info.name, "` is ", dims_text(info), "; the shape given has ",
                                   given->second.size(), " dims"));
  Dims out;
  for (size_t i = 0; i < (info.has_shape ? info.dims.size() : given->second.size()); ++i) {
    const Dimension file = info.has_shape ? info.dims[i] : Dimension{};
    const auto named = file.name.empty() ? options_.shapes.end() : options_.shapes.find(file.name);
    int64_t d = file.value;
    if (named != options_.shapes.end() && named->second.size() == 1) d = named->second[0];
    if (given != options_.shapes.end()) d = given->second[i];
    if (file.value >= 0 && d != file.value)
      return fail(Code::invalid, cat("input `", info.name, "` is ", dims_text(info), "; dim ", i, " was given as ", d));
    if (d < 0)
      return fail(Code::invalid, cat("input `", info.name, "` is ", dims_text(info), ", and dim ", i,
                                     " is not known; give the shape with ", example()));
    out.push_back(d);
  }
  return out;
}

Result<void> Maker::parameters() {
  ir::Strings names;
  std::set<std::string_view> constants;
  for (const TensorProto& t : model_.graph.initializers) constants.insert(t.name);
  for (const SparseProto& t : model_.graph.sparse) constants.insert(t.values.name);
  for (const ValueInfo& info : model_.graph.inputs) {
    if (constants.contains(info.name)) continue;  // a weight that could be given, but has a value
    if (!info.is_tensor)
      return fail(Code::unsupported, cat("input `", info.name,
                                         "` is no tensor: sequences, maps and optionals "
                                         "cannot be given to a program"));
    auto dtype = dtype_of(info.type);
    if (!dtype) return fail(dtype.error().code, cat("input `", info.name, "`: ", dtype.error().message));
    const ir::Type type = ir::tensor_type(*dtype, TRY(dims_of(info)));
    if (!ir::is_countable(type)) return fail(Code::out_of_range, cat("input `", info.name, "` of ", ir::text(type)));
    const Value param = build_.graph.parameter(type, build_.graph.add_location(cat("input ", info.name)));
    build_.graph.params.push_back(param);
    scope_->items[info.name] = {.value = param};
    names.emplace_back(info.name);
  }
  build_.graph.attrs.set("param_names", std::move(names));
  return {};
}

Result<void> Maker::initializers(const GraphProto& graph, Scope& scope) {
  ir::Strings names = build_.graph.attrs.strings("param_names");
  for (const TensorProto& proto : graph.initializers) {
    Tensor tensor = TRY(make_tensor(proto, options_.file));
    const bool is_weight = &graph == &model_.graph && options_.weights_from >= 0 &&
                           int64_t(tensor.bytes()) >= options_.weights_from && is_float(tensor.dtype);
    if (is_weight) {
      build_.graph.params.push_back(build_.graph.parameter(ir::tensor_type(tensor.dtype, tensor.dims)));
      scope.items[proto.name] = {.value = build_.graph.params.back()};
      names.emplace_back(proto.name);
    } else {
      scope.items[proto.name] = {.value = build_.constant(std::move(tensor))};
    }
  }
  for (const SparseProto& proto : graph.sparse)
    scope.items[proto.values.name] = {.value = build_.constant(TRY(make_dense(proto, options_.file)))};
  if (&graph == &model_.graph) build_.graph.attrs.set("param_names", std::move(names));
  return {};
}

Result<ir::Graph> Maker::make() {
  if (!model_.has_graph) return fail(Code::invalid, "no graph: expected an ONNX model");
  TRY(opsets());
  Scope scope;
  scope_ = &scope;
  if (!model_.graph.name.empty()) build_.graph.name = model_.graph.name;
  TRY(parameters());
  TRY(initializers(model_.graph, scope));
  TRY(nodes(model_.graph.nodes, scope));
  ir::Strings names;
  for (const ValueInfo& out : model_.graph.outputs) {
    const Item* found = scope.find(out.name);
    if (found == nullptr) return fail(Code::invalid, cat("output `", out.name, "` is made by no node"));
    if (!found->value) return fail(Code::unsupported, cat("output `", out.name, "` is a list of tensors"));
    build_.graph.results.push_back(found->value);
    names.emplace_back(out.name);
  }
  build_.graph.attrs.set("result_names", std::move(names));
  return std::move(build_.graph);
}

Result<void> Maker::nodes(const std::vector<NodeProto>& nodes, Scope& scope) {
  for (const NodeProto& n : nodes) TRY(node(n, scope));
  return {};
}

Result<void> Maker::node(const NodeProto& node, Scope& scope) {
  const uint32_t outer = build_.where;
  build_.where = build_.graph.add_location(cat(options_.name, ": ", location_of(node)));
  std::vector<Item> inputs;
  Result<std::vector<Item>> made = std::vector<Item>{};
  for (std::string_view name : node.inputs) {
    const Item* found = name.empty() ? nullptr : scope.find(name);
    inputs.push_back(found != nullptr ? *found : Item{});
    if (!name.empty() && found == nullptr)
      made = fail(Code::invalid, cat("input `", name, "` is made by no node before it"));
  }
  if (made && ++count_ > limits().ops && limits().ops > 0)  // functions and loops written out grow without end
    made = fail(Code::out_of_range, cat("more than ", limits().ops, " nodes in all; TRINE_OPS allows more"));
  if (made) made = lower(node, std::move(inputs));
  const std::string& location = build_.graph.location(build_.where);
  build_.where = outer;
  if (!made) {
    const Error& e = made.error();
    if (e.where.starts_with(options_.name) && e.where != location) return e;  // of a node inside this one
    return fail(e.code, cat(full_name(node), ": ", e.message), location);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && i < made->size()) scope.items[node.outputs[i]] = (*made)[i];
  return {};
}

const FunctionProto* Maker::find_function(const NodeProto& node) const {
  for (const FunctionProto& f : model_.functions)
    if (f.name == node.op && f.overload == node.overload &&
        (f.domain == node.domain || (is_default(f.domain) && is_default(node.domain))))
      return &f;
  return nullptr;
}

Result<std::vector<Item>> Maker::lower(const NodeProto& node, std::vector<Item> inputs) {
  if (const FunctionProto* function = find_function(node)) return call(*function, node, std::move(inputs));
  const int64_t opset = opset_of(node.domain);
  const Row* row = find_row(is_default(node.domain) ? std::string_view{} : node.domain, node.op, opset);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const Row* r : all_rows())
      if (r->domain.empty()) names.emplace_back(r->name);
    if (!is_default(node.domain))
      return fail(Code::unsupported, cat("an op of domain ", node.domain, " that the model does not define"));
    return fail(Code::unsupported,
                cat("this op is not supported in opset ", opset, "; near: ", join(nearest(node.op, names), ", ")));
  }
  const int given = int(inputs.size());
  if (given < row->inputs_min || (row->inputs_max >= 0 && given > row->inputs_max))
    return fail(Code::invalid, cat("found ", given, " inputs; expected ", row->inputs_min,
                                   row->inputs_max < 0                 ? " or more"
                                   : row->inputs_max > row->inputs_min ? cat(" to ", row->inputs_max)
                                                                       : std::string()));
  Call call{.b = build_, .maker = *this, .node = node, .opset = opset, .op = row->op};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] && int(i) < row->inputs_min) return fail(Code::invalid, cat("input ", i, " is absent"));
    call.in.push_back(inputs[i].value);
  }
  call.items = std::move(inputs);
  for (int i = 0; i < row->inputs_min; ++i)
    if (!call.in[size_t(i)] && !row->takes_lists)
      return fail(Code::invalid, cat("input ", i, " is a list of tensors; expected a tensor"));
  Values values = TRY(row->lower(call));
  if (call.attribute_error) return *call.attribute_error;
  std::vector<Item> out = std::move(call.lists);
  for (const Value& v : values) out.push_back({.value = v});
  for (size_t i = out.size(); i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) return fail(Code::unsupported, cat("its output ", i, " (`", node.outputs[i], "`)"));
  return out;
}

Result<std::vector<Item>> Maker::outputs(const std::vector<std::string_view>& names, const Scope& scope) const {
  std::vector<Item> out;
  for (std::string_view name : names) {
    const Item* found = scope.find(name);
    if (found == nullptr) return fail(Code::invalid, cat("its body makes no `", name, "`"));
    out.push_back(*found);
  }
  return out;
}

Result<std::vector<Item>> Maker::call(const FunctionProto& function, const NodeProto& node, std::vector<Item> inputs) {
  if (depth_ >= kNestingMax) return fail(Code::unsupported, cat("functions nested more than ", kNestingMax, " deep"));
  if (inputs.size() > function.inputs.size())
    return fail(Code::invalid, cat("found ", inputs.size(), " inputs; the function takes ", function.inputs.size()));
  // References in the call's own attributes are to the function around it.
  std::vector<AttributeProto> attributes;
  for (const AttributeProto& a : node.attributes) {
    const AttributeProto* meant = a.refers.empty() ? &a : outer_attribute(a.refers);
    if (meant == nullptr) continue;
    attributes.push_back(*meant);
    attributes.back().name = a.name;
  }
  Scope scope;
  for (size_t i = 0; i < inputs.size(); ++i) scope.items[function.inputs[i]] = inputs[i];
  for (size_t i = inputs.size(); i < function.inputs.size(); ++i) scope.items[function.inputs[i]] = {};
  const auto outer = std::tuple(scope_, opsets_, attributes_, function_);
  scope_ = &scope;
  if (!function.opsets.empty()) opsets_ = &function.opsets;
  attributes_ = &attributes;
  function_ = &function;
  ++depth_;
  auto done = nodes(function.nodes, scope);
  --depth_;
  std::tie(scope_, opsets_, attributes_, function_) = outer;
  TRY(std::move(done));
  return outputs(function.outputs, scope);
}

Result<std::vector<Item>> Maker::body(const GraphProto& graph, std::span<const Item> inputs) {
  if (depth_ >= kNestingMax) return fail(Code::unsupported, cat("bodies nested more than ", kNestingMax, " deep"));
  if (inputs.size() != graph.inputs.size())
    return fail(Code::invalid, cat("its body takes ", graph.inputs.size(), " inputs; ", inputs.size(), " are given"));
  Scope scope{.around = scope_};
  for (size_t i = 0; i < inputs.size(); ++i) scope.items[graph.inputs[i].name] = inputs[i];
  Scope* outer = scope_;
  scope_ = &scope;
  ++depth_;
  auto done = initializers(graph, scope);
  if (done) done = nodes(graph.nodes, scope);
  --depth_;
  scope_ = outer;
  TRY(std::move(done));
  std::vector<std::string_view> names;
  for (const ValueInfo& out : graph.outputs) names.push_back(out.name);
  return outputs(names, scope);
}

}  // namespace trine::front::onnx

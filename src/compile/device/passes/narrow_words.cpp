// One walk in order of ids, nodes made anew with narrow types; see narrow_words.h.
#include "compile/device/passes/narrow_words.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile {

namespace {

ir::Type narrow(ir::Type type) {
  if (type.dtype == Dtype::s64) type.dtype = Dtype::s32;
  return type;
}

Tensor narrow(const Tensor& wide) {
  Tensor out = Tensor::make(Dtype::s32, wide.dims);
  const auto* const from = wide.view().as<const int64_t>();
  auto* const to = out.view().as<int32_t>();
  for (int64_t i = 0; i < out.view().elements(); ++i)
    to[i] = int32_t(std::clamp<int64_t>(from[i], INT32_MIN, INT32_MAX));
  return out;
}

class Narrower {
 public:
  explicit Narrower(const ir::Graph& from) : from_(from) {}

  ir::Graph all() {
    out_.name = from_.name;
    out_.attrs = from_.attrs;
    out_.donations = from_.donations;
    for (const ir::Value& p : from_.params)
      out_.params.push_back(parameter(p, is_number(p) ? ir::tensor_type(Dtype::f32, {}) : narrow(p.type())));
    for (const ir::Node* node : from_.order()) visit(*node);
    out_.results = mapped(from_.results);
    out_.effects = copied_effects(from_.effects);
    return std::move(out_);
  }

 private:
  bool is_number(const ir::Value& p) const {
    if (p.type().dtype != Dtype::f64 || !p.type().dims.empty()) return false;
    const auto uses = [&](const std::vector<ir::Value>& values) {
      return std::find(values.begin(), values.end(), p) != values.end();
    };
    for (const ir::Node* node : from_.order())
      if ((uses(node->inputs) && node->op != op::convert) || uses(node->captures)) return false;
    return !uses(from_.results);
  }
  uint32_t location(uint32_t where) { return where ? out_.add_location(from_.location(where)) : 0; }
  ir::Value parameter(const ir::Value& old, ir::Type type) {
    const ir::Value fresh = out_.parameter(std::move(type), location(old.node->where));
    map_[old.node] = {fresh};
    return fresh;
  }
  std::vector<ir::Value> mapped(const std::vector<ir::Value>& values) const {
    std::vector<ir::Value> out;
    for (const ir::Value& v : values) out.push_back(map_.at(v.node)[v.index]);
    return out;
  }
  std::vector<ir::Value> copied_effects(const std::vector<ir::Value>& effects) const {
    std::vector<ir::Value> out;
    for (const ir::Value& v : effects) {
      const std::vector<ir::Value>& results = map_.at(v.node);
      out.push_back(results.empty() ? ir::Value{bare_.at(v.node), 0} : results[v.index]);
    }
    return out;
  }
  ir::Value converted(const ir::Value& v, const ir::Type& type, uint32_t where) {
    return ops::Make(out_, where).convert(v, type.dtype);
  }

  void visit(const ir::Node& node) {
    if (map_.count(&node)) return;
    const uint32_t where = location(node.where);
    if (node.op == op::constant && node.types[0].dtype == Dtype::s64) {
      map_[&node] = {out_.constant(narrow(*node.attrs.tensor("value")), where)};
      return;
    }
    const bool is_exact = node.op == op::bitcast_convert || node.op == op::custom_call;
    ir::Spec spec{.op = node.op,
                  .inputs = mapped(node.inputs),
                  .attrs = node.attrs,
                  .types = node.types,
                  .where = where,
                  .is_unique = node.is_unique};
    if (is_exact) {
      for (size_t i = 0; i < spec.inputs.size(); ++i)
        spec.inputs[i] = converted(spec.inputs[i], node.inputs[i].type(), where);
    } else {
      for (ir::Type& t : spec.types) t = narrow(t);
    }
    for (const ir::Region& old : node.regions) spec.regions.push_back(region(old));
    const ir::Node* const made = out_.add(std::move(spec));
    if (made->types.empty()) bare_[&node] = made;
    std::vector<ir::Value>& results = map_[&node];
    for (uint32_t i = 0; i < made->types.size(); ++i)
      results.push_back(converted(made->result(i), narrow(node.types[i]), where));
  }

  ir::Region region(const ir::Region& old) {
    ir::Region out;
    for (const ir::Value& p : old.params) out.params.push_back(parameter(p, narrow(p.type())));
    for (const ir::Node* inner : ir::body_of(old).nodes) visit(*inner);
    out.results = mapped(old.results);
    out.effects = copied_effects(old.effects);
    return out;
  }

  const ir::Graph& from_;
  ir::Graph out_;
  std::unordered_map<const ir::Node*, std::vector<ir::Value>> map_;
  std::unordered_map<const ir::Node*, const ir::Node*> bare_;  // of nodes without results
};

}  // namespace

ir::Graph narrow_words(const ir::Graph& graph) { return Narrower(graph).all(); }

}  // namespace trine::compile

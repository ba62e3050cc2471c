// A few sweeps over the graph, loops' bodies included.
#include "compile/partition/hints.h"

#include <algorithm>

#include "ir/op_ids.h"

namespace trine::compile {

using ir::Node;
using ir::Value;

bool is_whole(const Sharding& sharding) {
  return std::all_of(sharding.begin(), sharding.end(), [](const Atoms& a) { return a.empty(); });
}

void FactorAtoms::wish(const std::vector<int>& factors, const Sharding& sharding) {
  for (size_t d = 0; d < factors.size(); ++d) {
    if (factors[d] == kWhole) continue;
    const Factor& factor = rule_.factors[size_t(factors[d])];
    if (of_ == Of::op ? factor.is_carried : of_ == Of::results && !factor.reduction.empty()) continue;
    Atoms& own = atoms_[size_t(factors[d])];
    const Atoms& wanted = sharding[d];
    if (wanted.size() <= own.size() || !std::equal(own.begin(), own.end(), wanted.begin())) continue;
    for (size_t i = own.size(); i < wanted.size(); ++i) {
      Atoms longer = own;
      longer.push_back(wanted[i]);
      const bool is_used = std::find(used_.begin(), used_.end(), wanted[i]) != used_.end();
      if (is_used || factor.size % meshes_.count(longer) != 0) break;
      own = std::move(longer);
      used_.push_back(wanted[i]);
    }
  }
}

void FactorAtoms::wish_all(const std::vector<const Sharding*>& inputs, const std::vector<const Sharding*>& results) {
  const auto wish_some = [&](const auto& factors, const auto& shardings) {
    for (size_t i = 0; i < shardings.size(); ++i)
      if (shardings[i]) wish(factors[i], *shardings[i]);
  };
  if (!rule_.inputs_first) wish_some(rule_.results, results);
  wish_some(rule_.inputs, inputs);
  if (rule_.inputs_first) wish_some(rule_.results, results);
}

Sharding FactorAtoms::of(const std::vector<int>& factors) const {
  Sharding out(factors.size());
  for (size_t d = 0; d < factors.size(); ++d)
    if (factors[d] != kWhole) out[d] = atoms_[size_t(factors[d])];
  return out;
}

const Sharding* Hints::find(const Value& value) const {
  const auto found = hints_.find(value);
  return found == hints_.end() ? nullptr : &found->second;
}

Sharding filled(const Meshes::Parsed& declared, const Sharding& have) {
  Sharding out = declared.dims;
  Atoms used = declared.replicated;
  for (const Atoms& dim : out) used.insert(used.end(), dim.begin(), dim.end());
  for (size_t d = 0; d < out.size(); ++d) {
    if (!declared.is_open[d] || !out[d].empty()) continue;
    const auto is_free = [&](int a) { return std::find(used.begin(), used.end(), a) == used.end(); };
    if (std::all_of(have[d].begin(), have[d].end(), is_free)) out[d] = have[d];
  }
  return out;
}

bool Hints::set(const Value& value, Sharding sharding) {
  const Manual& manual = manual_.of(value);
  if (!manual.can_be_cut()) return false;
  if (manual.is_manual) sharding = left_of(sharding, manual.axes, value.type().dims, meshes_);
  const auto declared = declared_.find(value);
  if (declared != declared_.end()) sharding = filled(declared->second, sharding);
  if (is_whole(sharding)) return false;
  const auto [at, is_new] = hints_.emplace(value, sharding);
  if (is_new || declared == declared_.end() || at->second != declared->second.dims || at->second == sharding)
    return is_new;
  at->second = std::move(sharding);
  return true;
}

void Hints::declare(const Value& value, Meshes::Parsed declared) {
  const Sharding dims = declared.dims;
  declared_.emplace(value, std::move(declared));
  set(value, dims);
}

// What the program says itself.
Result<void> Hints::fix(const Node& node) {
  if (node.op == op::sharding_constraint || node.op == op::to_global)
    declare(node.result(), TRY(meshes_.parse(node.attrs.text("sharding"), node.types[0].dims)));
  if (node.op == op::to_global) at_edges_[&node] = TRY(manual_sharding(meshes_, node, node.types[0].dims));
  if (node.op == op::to_local) {
    at_edges_[&node] = TRY(manual_sharding(meshes_, node, node.inputs[0].type().dims));
    declare(node.result(), at_edges_[&node].other);
  }
  for (const ir::Region& region : node.regions)
    for (const Node* inner : ir::body_of(region).nodes) TRY(fix(*inner));
  return {};
}

void Hints::enter(const Node& node) {
  const Value &whole = node.inputs[0], part = node.result();
  const ManualSharding& edge = at_edges_.at(&node);
  if (const Sharding* own = find(whole)) set(part, left_of(*own, edge.axes, part.type().dims, meshes_));
  const Sharding* own = find(part);
  set(whole, own ? joined(edge.declared.dims, *own) : edge.declared.dims);
}

void Hints::leave(const Node& node) {
  const Value &part = node.inputs[0], whole = node.result();
  const ManualSharding& edge = at_edges_.at(&node);
  if (const Sharding* own = find(part)) set(whole, joined(edge.declared.dims, *own));
  if (const Sharding* own = find(whole); own && manual_.of(part).is_manual)
    set(part, left_of(*own, edge.axes, part.type().dims, meshes_));
}

static std::vector<const Sharding*> hints_of(const Hints& hints, const std::vector<Value>& values) {
  std::vector<const Sharding*> out;
  for (const Value& v : values) out.push_back(hints.find(v));
  return out;
}

static std::vector<Value> results_of(const Node& node) {
  std::vector<Value> out;
  for (uint32_t r = 0; r < node.types.size(); ++r) out.push_back(node.result(r));
  return out;
}

void Hints::forward(const Node& node) {
  if (node.op == op::while_) return loop(node);
  if (node.op == op::case_) return choice(node);
  if (node.op == op::to_local) return enter(node);
  if (node.op == op::to_global) return leave(node);
  if (node.op == op::sharding_constraint)
    if (const Sharding* own = find(node.inputs[0])) set(node.result(), *own);
  const auto rule = rule_of(node, manual_.of(node).is_manual);
  if (!rule) return;
  FactorAtoms atoms(meshes_, *rule, FactorAtoms::Of::results);
  atoms.wish_all(hints_of(*this, node.inputs), hints_of(*this, results_of(node)));
  for (uint32_t r = 0; r < node.types.size(); ++r) set(node.result(r), atoms.of(rule->results[r]));
}

void Hints::backward(const Node& node) {
  if (node.op == op::while_) return loop(node);
  if (node.op == op::case_) return choice(node);
  if (node.op == op::to_local) return enter(node);
  if (node.op == op::to_global) return leave(node);
  if (node.op == op::sharding_constraint)
    if (const Sharding* own = find(node.result())) set(node.inputs[0], *own);
  const bool is_manual = manual_.of(node).is_manual;
  const auto rule = rule_of(node, is_manual);
  if (!rule) return;
  FactorAtoms atoms(meshes_, *rule, FactorAtoms::Of::inputs);
  atoms.wish_all(hints_of(*this, node.inputs), hints_of(*this, results_of(node)));
  // What follows from constants may be used within other manual axes as well: no one of them says how it lies.
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!is_manual || manual_.of(node.inputs[i]).is_manual) set(node.inputs[i], atoms.of(rule->inputs[i]));
}

void Hints::tie(const std::vector<Value>& values) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& v) { return find(v) != nullptr; });
  if (found == values.end()) return;
  const Sharding sharding = *find(*found);
  const bool is_manual = manual_.of(*found).is_manual;
  for (const Value& v : values)
    if (!is_manual || manual_.of(v).is_manual) set(v, sharding);
}

void Hints::sweep(const ir::Region& body) {
  const auto nodes = ir::body_of(body).nodes;
  for (const Node* inner : nodes) forward(*inner);
  for (size_t i = nodes.size(); i-- > 0;) backward(*nodes[i]);
}

// A carried value has the same sharding before, in and after every iteration.
void Hints::loop(const Node& node) {
  const ir::Region& body = node.regions[1];
  const auto tie_all = [&] {
    for (uint32_t i = 0; i < node.inputs.size(); ++i)
      tie({node.inputs[i], node.regions[0].params[i], body.params[i], body.results[i], node.result(i)});
  };
  tie_all();
  const auto nodes = ir::body_of(body).nodes;
  for (const Node* inner : nodes) forward(*inner);
  tie_all();
  for (size_t i = nodes.size(); i-- > 0;) backward(*nodes[i]);
  tie_all();
}

// Branches begin with what the case is given, and their results lie as its own.
void Hints::choice(const Node& node) {
  for (const ir::Region& branch : node.regions) {
    for (size_t i = 0; i < branch.params.size() && i + 1 < node.inputs.size(); ++i)
      if (const Sharding* given = find(node.inputs[i + 1])) set(branch.params[i], Sharding(*given));
    for (uint32_t r = 0; r < branch.results.size(); ++r) tie({node.result(r), branch.results[r]});
    sweep(branch);
    for (uint32_t r = 0; r < branch.results.size(); ++r) tie({node.result(r), branch.results[r]});
  }
}

Result<void> Hints::compute() {
  for (const Value& v : graph_.params) {
    declare(v, TRY(meshes_.parse(v.type().sharding, v.type().dims)));
    declared_[v].is_open.assign(v.type().dims.size(), false);  // it is already where it is
  }
  const std::vector<const Node*> nodes = graph_.order();
  for (const Node* node : nodes) TRY(fix(*node));
  const ir::Strings& results = graph_.attrs.strings("result_shardings");
  for (size_t i = 0; i < graph_.results.size() && i < results.size(); ++i) {
    const Value& v = graph_.results[i];
    if (v.node->op != op::parameter) set(v, TRY(meshes_.parse(results[i], v.type().dims)).dims);
  }
  for (int sweep = 0; sweep < 2; ++sweep) {
    for (const Node* node : nodes) forward(*node);
    for (size_t i = nodes.size(); i-- > 0;) backward(*nodes[i]);
  }
  return {};
}

}  // namespace trine::compile

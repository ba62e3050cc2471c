// Interning of nodes, and which nodes a region or a program is made of.
#include "ir/graph.h"

#include <algorithm>
#include <unordered_set>

#include "base/result.h"
#include "base/stop.h"
#include "ir/op_ids.h"

namespace trine::ir {

namespace {

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); }

size_t hash_values(size_t h, const std::vector<Value>& values) {
  for (const Value& v : values) h = mix(h, size_t(v.node->id) * 8 + v.index);
  return mix(h, values.size());
}

size_t hash_spec(const Spec& spec) {
  size_t h = mix(std::hash<OpId>{}(spec.op), hash(spec.attrs));
  h = hash_values(h, spec.inputs);
  for (const Region& r : spec.regions) h = hash_values(hash_values(hash_values(h, r.params), r.results), r.effects);
  for (const Type& t : spec.types) h = mix(h, hash(t));
  return h;
}

bool is_same(const Node& node, const Spec& spec) {
  return node.op == spec.op && node.inputs == spec.inputs && node.attrs == spec.attrs && node.regions == spec.regions &&
         node.types == spec.types;
}

// Values that come before `node`: its inputs and what its regions use.
template <class F>
void for_each_source(const Node& node, F&& f) {
  for (const Value& v : node.inputs) f(v);
  for (const Value& v : node.captures) f(v);
}

bool by_id(const Node* a, const Node* b) { return a->id < b->id; }

// Every node from `from` on backwards, down to ids below `floor`, in order of id.
std::vector<const Node*> reachable(std::vector<Value> from, uint32_t floor) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> all, worklist;
  auto visit = [&](const Value& v) {
    if (v.node->id >= floor && seen.insert(v.node).second) worklist.push_back(v.node);
  };
  for (const Value& v : from) visit(v);
  while (!worklist.empty()) {
    const Node* node = worklist.back();
    worklist.pop_back();
    all.push_back(node);
    for_each_source(*node, visit);
  }
  std::sort(all.begin(), all.end(), by_id);
  return all;
}

}  // namespace

Graph::Graph() = default;
Graph::Graph(Graph&& other) = default;
Graph& Graph::operator=(Graph&& other) = default;
Graph::~Graph() = default;

RegionBody body_of(const Region& region) {
  std::vector<Value> ends = region.results;
  ends.insert(ends.end(), region.effects.begin(), region.effects.end());
  uint32_t floor = UINT32_MAX;
  for (const Value& p : region.params) floor = std::min(floor, p.node->id);
  for (const Value& e : region.effects) floor = std::min(floor, e.node->id);
  std::unordered_set<const Node*> inside, params, effect_nodes, captured;
  for (const Value& p : region.params) params.insert(p.node);
  for (const Value& e : region.effects) effect_nodes.insert(e.node);
  RegionBody body;
  for (const Node* node : reachable(ends, floor)) {
    if (params.count(node)) continue;
    bool depends = effect_nodes.count(node) > 0;
    for_each_source(*node, [&](const Value& v) { depends |= params.count(v.node) || inside.count(v.node); });
    if (!depends) continue;
    inside.insert(node);
    body.nodes.push_back(node);
  }
  std::vector<Value>& used = body.captures;
  auto use = [&](const Value& v) {
    if (params.count(v.node) || inside.count(v.node)) return;
    if (std::find(used.begin(), used.end(), v) == used.end()) used.push_back(v);
  };
  for (const Node* node : body.nodes) for_each_source(*node, use);
  for (const Value& v : region.results) use(v);
  return body;
}

Value Graph::parameter(Type type, uint32_t where) {
  return add({.op = op::parameter, .types = {std::move(type)}, .where = where, .is_unique = true})->result();
}

Value Graph::constant(Tensor value, uint32_t where) {
  Type type = tensor_type(value.dtype, value.dims);
  return add({.op = op::constant, .attrs = {{"value", std::move(value)}}, .types = {std::move(type)}, .where = where})
      ->result();
}

Value Graph::add1(OpId op, std::vector<Value> inputs, Type type, Attrs attrs, uint32_t where) {
  return add({.op = op,
              .inputs = std::move(inputs),
              .attrs = std::move(attrs),
              .types = {std::move(type)},
              .where = where})
      ->result();
}

const Node* Graph::add(Spec spec) {
  stop_point();
  const size_t h = hash_spec(spec);
  if (!spec.is_unique) {
    auto [first, last] = by_hash_.equal_range(h);
    for (auto it = first; it != last; ++it)
      if (is_same(*it->second, spec)) return it->second;
  }
  Node node{.op = spec.op,
            .id = node_count(),
            .where = spec.where,
            .inputs = std::move(spec.inputs),
            .attrs = std::move(spec.attrs),
            .regions = std::move(spec.regions),
            .types = std::move(spec.types),
            .is_unique = spec.is_unique};
  for (const Region& region : node.regions)
    for (const Value& v : body_of(region).captures)
      if (std::find(node.captures.begin(), node.captures.end(), v) == node.captures.end()) node.captures.push_back(v);
  nodes_.push_back(std::move(node));
  if (!spec.is_unique) by_hash_.emplace(h, &nodes_.back());
  return &nodes_.back();
}

uint32_t Graph::add_location(std::string location) {
  if (location.empty()) return 0;
  auto [it, fresh] = location_ids_.emplace(location, uint32_t(locations_.size()));
  if (fresh) locations_.push_back(std::move(location));
  return it->second;
}

std::vector<const Node*> Graph::order(const std::vector<Value>& results, const std::vector<Value>& effects) {
  std::vector<Value> ends = results;
  ends.insert(ends.end(), effects.begin(), effects.end());
  return reachable(std::move(ends), 0);
}

}  // namespace trine::ir

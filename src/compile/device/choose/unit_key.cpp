// A unit's nodes in the order of their ids, each named by when it was met; see unit_key.h.
#include "compile/device/choose/unit_key.h"

#include <algorithm>

#include "ir/op_ids.h"

namespace trine::compile::device {

UnitKey::UnitKey(const Unit& unit, const Store& store, const arch::Program& program)
    : store_(store), program_(program) {
  std::vector<const ir::Node*> nodes(unit.members.begin(), unit.members.end());
  for (const ir::Node* node : {unit.single, unit.product})
    if (node) nodes.push_back(node);
  if (unit.attention) nodes.insert(nodes.end(), unit.attention->inside.begin(), unit.attention->inside.end());
  std::sort(nodes.begin(), nodes.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  for (const ir::Node* node : nodes) nodes_.emplace(node, nodes_.size());
  add(nodes.size());
  for (const ir::Node* node : nodes) describe(*node);
  for (const ir::Node* node : {unit.single, unit.product}) add(node ? nodes_.at(node) + 1 : 0);
  for (const ir::Node* root : unit.roots) add(nodes_.at(root));
  for (int64_t n : unit.space) add(uint64_t(n));
  for (bool is_inner : unit.inner) add(uint64_t(is_inner));
  add(uint64_t(unit.keeps_product));
  if (!unit.attention) return;
  add(uint64_t(unit.attention->keeps_rows));
  for (const ir::Value& v : unit.attention->reads()) add(v);
}

void UnitKey::describe(const ir::Node& node) {
  add(node.op.name());
  add(uint64_t(ir::hash(node.attrs)));
  for (const ir::Type& type : node.types) add(uint64_t(ir::hash(type)));
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    const Memory* const m = store_.find(node.result(i));
    add(m ? uint64_t(m->dtype) : UINT64_MAX);
  }
  add(node.inputs.size());
  for (const auto* list : {&node.inputs, &node.captures})
    for (const ir::Value& v : *list) add(v);
  for (const ir::Region& region : node.regions) {
    for (const ir::Node* inner : ir::body_of(region).nodes) add(inner);
    for (const ir::Value& v : region.results) add(v);
  }
}

void UnitKey::add(const ir::Node* node) {
  const auto [found, fresh] = nodes_.try_emplace(node, nodes_.size());
  add(found->second);
  if (fresh) describe(*node);
}

// What is in memory counts by where it lies: of what made it lowering knows the op, and numbers by their value.
void UnitKey::add(const ir::Value& v) {
  if (!store_.has(v)) return add(v.node), add(uint64_t(v.index));
  const auto [found, fresh] = nodes_.try_emplace(v.node, nodes_.size());
  add(found->second << 8 | v.index);
  const Memory& m = *store_.find(v);
  const auto [entry, unseen] = memories_.try_emplace(&m, memories_.size());
  add(entry->second);
  if (unseen) add(m);
  if (!fresh) return;
  add(v.node->op.name());
  if (v.node->op == op::constant) add(uint64_t(ir::hash(v.node->attrs)));
  add(uint64_t(ir::hash(v.type())));
  if (memory_root(v) != v) add(v.node->inputs[0]);
}

void UnitKey::add(const Memory& m) {
  add(uint64_t(m.dtype) << 8 | uint64_t(m.input >= 0) << 3 | uint64_t(m.no_product) << 2 | uint64_t(m.elsewhere));
  for (int64_t n : m.dims) add(uint64_t(n));
  if (m.hbm >= 0) {
    const arch::Tensor& t = program_.tensors[size_t(m.hbm)];
    add(uint64_t(t.kind) << 8 | uint64_t(t.dtype));
    for (int64_t n : t.shape) add(uint64_t(n));
  }
  if (m.panels) {
    add(m.panels->batch), add(m.panels->depth), add(Axes{m.panels->column});
    add(uint64_t(m.panels->lanes)), add(uint64_t(m.panels->chunks)), add(uint64_t(m.panels->strip));
  }
  for (const Form& f : m.forms) {
    add(uint64_t(f.dtype) << 1 | uint64_t(f.transposed));
    for (int64_t n : {f.rows, f.columns, f.tiling.extent, f.tiling.period, f.tiling.per}) add(uint64_t(n));
  }
}

void UnitKey::add(const Axes& axes) {
  add(axes.size());
  for (const Axis& a : axes) add(uint64_t(a.stride)), add(uint64_t(a.count));
}

}  // namespace trine::compile::device

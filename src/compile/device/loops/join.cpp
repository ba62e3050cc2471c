// Which concatenates are worth a loop, and what becomes part of it; see join.h.
#include "compile/device/loops/join.h"

#include <algorithm>
#include <unordered_map>

#include "compile/device/memory/store.h"
#include "compile/graph/index_map.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::join;

Joined described(const ir::Node& node) {
  Joined out{.node = &node};
  const Dims& dims = node.inputs[0].type().dims;
  for (size_t d = size_t(node.attrs.integer("dimension")); d < dims.size(); ++d) out.run *= dims[d];
  for (const ir::Value& v : node.inputs) out.parts.push_back(memory_root(v));
  return out;
}

class Joiner {
 public:
  Joiner(std::vector<Unit>& units, std::span<const ir::Value> live_out) : units_(units) {
    for (const ir::Value& v : live_out) mark(v, 2);
    for (size_t u = 0; u < units.size(); ++u) {
      const Unit& unit = units[u];
      for (const ir::Node* root : unit.roots) maker_[root] = u;
      for (const ir::Node* node : {unit.single, unit.product})
        if (node) reads(*node);
      for (const ir::Node* member : unit.members) reads(*member);
      if (unit.attention)
        for (const ir::Value& v : unit.attention->reads()) mark(v, 1);
    }
  }

  void all() {
    for (Unit& unit : units_)
      if (unit.single && unit.single->op == op::concatenate) take(unit);
    std::erase_if(units_, [](const Unit& unit) { return !unit.single && unit.roots.empty(); });
  }

 private:
  void mark(ir::Value v, int times) {
    for (;;) {
      v = memory_root(v);
      readers_[v.node] += times;
      if (view_kind(*v.node) == ViewKind::none) return;
      v = v.node->inputs[0];
    }
  }
  void reads(const ir::Node& node) {
    for (const auto* list : {&node.inputs, &node.captures})
      for (const ir::Value& v : *list) mark(v, 1);
  }

  // The loop that makes a part and nothing else; null: the part is read from memory.
  Unit* loop_of(const ir::Value& part) {
    const auto found = maker_.find(part.node);
    if (found == maker_.end() || readers_[part.node] != 1) return nullptr;
    Unit& unit = units_[found->second];
    return unit.is_loop() && unit.roots.size() == 1 && !unit.has_reduction() ? &unit : nullptr;
  }

  void take(Unit& unit) {
    const ir::Node& node = *unit.single;
    const Dims& dims = node.inputs[0].type().dims;
    if (node.types[0].elements() < tuned::kElementsLeast || node.inputs.size() > tuned::kPartsMax) return;
    for (const ir::Value& v : node.inputs)
      if (v.type().dims != dims) return;
    const Joined joined = described(node);
    std::vector<Unit*> loops;
    const Dims* space = &joined.parts[0].type().dims;
    for (const ir::Value& part : joined.parts)
      if (Unit* const loop = loop_of(part)) {
        loops.push_back(loop);
        space = &loop->space;
      }
    for (const ir::Value& part : joined.parts)
      if (part.type().dims != *space) return;
    if (joined.run * bytes(node.types[0].dtype) >= (loops.empty() ? tuned::kRunMoved : tuned::kRunComputed)) return;
    const Dims strides = row_major_strides(*space);
    for (size_t d = 0; d < space->size(); ++d)
      if (strides[d] % joined.run && joined.run % (strides[d] * (*space)[d])) return;
    Unit made{.roots = {&node}, .members = {&node}, .space = *space, .inner = std::vector<bool>(space->size())};
    for (Unit* loop : loops) {
      made.members.insert(loop->members.begin(), loop->members.end());
      *loop = loop->product ? Unit{.single = loop->product} : Unit{};
    }
    unit = std::move(made);
  }

  std::vector<Unit>& units_;
  std::unordered_map<const ir::Node*, size_t> maker_;
  std::unordered_map<const ir::Node*, int> readers_;
};

}  // namespace

std::optional<Joined> joined_by(const Unit& unit) {
  if (unit.roots.size() != 1 || unit.roots[0]->op != op::concatenate) return std::nullopt;
  return described(*unit.roots[0]);
}

void join(std::vector<Unit>& units, std::span<const ir::Value> live_out) { Joiner(units, live_out).all(); }

}  // namespace trine::compile::device

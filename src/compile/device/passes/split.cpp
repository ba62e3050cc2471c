// Each node judged by itself, then parts by depth: a node's part comes after those of its inputs; see split.h.
#include "compile/device/passes/split.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "arch/program/verify.h"
#include "base/text.h"
#include "compile/device/decompose/decompose.h"
#include "compile/device/lower.h"
#include "compile/graph/index_map.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"

namespace trine::compile {

using namespace device;

namespace {

using Nodes = std::vector<const ir::Node*>;

// Numbers that the chip's engines do not compute with, or nothing.
std::string foreign(const ir::Node& node, const arch::Chip& chip) {
  const auto lacks = [&](const ir::Type& t) {
    const auto on_device = t.is_token ? Dtype::u8 : device_dtype(t.dtype).value_or(t.dtype);
    return !arch::computes_with(chip, on_device);
  };
  for (const ir::Value& v : node.inputs)
    if (lacks(v.type())) return cat("the chip has no ", row(v.type().dtype).name);
  for (const ir::Type& t : node.types)
    if (lacks(t)) return cat("the chip has no ", row(t.dtype).name);
  return {};
}

// Why the device does not compute the graph: the first reason, or nothing.
std::string obstacle(const ir::Graph& graph, const arch::Chip& chip) {
  const ir::Graph simple = decompose(graph);
  for (const ir::Node* node : simple.order())
    if (std::string why = node->op == op::parameter ? std::string() : foreign(*node, chip); !why.empty()) return why;
  const Fusion fusion = units_of(simple.order(), simple.results);
  for (const Unit& unit : fusion.units)
    if (std::string why = unit_obstacle(unit); !why.empty()) return why;
  return {};
}

class Splitter {
 public:
  Splitter(const ir::Graph& graph, const arch::Chip& chip) : graph_(graph), chip_(chip), order_(graph.order()) {}

  Split all() {
    for (const ir::Node* node : order_) assign_part(*node);
    for (size_t i = 0; i < graph_.params.size(); ++i) numbers_[graph_.params[i].node] = {i};
    slots_ = graph_.params.size();
    std::unordered_set<const ir::Node*> given_back;
    for (const ir::Value& v : graph_.results) given_back.insert(v.node);
    std::map<int, Nodes> levels;
    for (const ir::Node* node : order_)
      if (!is_source(*node) || (is_made_anew(*node) && given_back.count(node))) levels[level_.at(node)].push_back(node);
    for (const auto& [level, nodes] : levels) {
      note_reads(nodes);
      out_.parts.push_back(part(level, nodes));
    }
    for (const ir::Value& v : graph_.results) out_.results.push_back(number_of(v));
    return std::move(out_);
  }

 private:
  // Parameters and constants are wherever they are needed.
  static bool is_source(const ir::Node& node) { return node.op == op::parameter || is_made_anew(node); }

  // The node with the constants it reads, all else given.
  std::string reason(const ir::Node& node) const {
    Nodes nodes;
    std::vector<ir::Value> given;
    const auto need = [&](const ir::Value& v, const auto& self) -> void {
      const bool views = view_kind(*v.node) != ViewKind::none || v.node->op == op::reshape;
      if (is_made_anew(*v.node) || (views && is_made_anew(*v.node->inputs[0].node))) {
        for (const ir::Value& in : v.node->inputs) self(in, self);
        nodes.push_back(v.node);
      } else {
        given.push_back(v);
      }
    };
    for (const auto* list : {&node.inputs, &node.captures})
      for (const ir::Value& v : *list) need(v, need);
    nodes.push_back(&node);
    std::vector<ir::Value> results, effects;
    for (uint32_t i = 0; i < node.types.size(); ++i) results.push_back(node.result(i));
    if (results.empty()) effects.push_back({&node, 0});
    return obstacle(ir::extract(graph_, given, nodes, results, effects), chip_);
  }

  void assign_part(const ir::Node& node) {
    if (is_source(node)) {
      level_[&node] = node.op != op::parameter && !foreign(node, chip_).empty() ? 1 : 0;
      return;
    }
    int level = 0;
    for (const auto* list : {&node.inputs, &node.captures})
      for (const ir::Value& v : *list)
        if (!is_source(*v.node)) level = std::max(level, level_.at(v.node));
    const bool views = view_kind(node) != ViewKind::none || node.op == op::reshape;
    std::string why = foreign(node, chip_);
    if (!views || !why.empty()) {
      if (why.empty()) why = reason(node);
      if ((level % 2 == 1) != !why.empty()) ++level;  // odd: on the host
      if (!why.empty())
        out_.host.push_back({std::string(node.op.name()), node.types.empty() ? "" : ir::text(node.types[0]), why,
                             graph_.location(node.where)});
    }
    level_[&node] = level;
  }

  size_t number_of(const ir::Value& v) {
    const auto found = numbers_.find(v.node);
    CHECK(found != numbers_.end(), "a value is written before it is read");
    return found->second[v.index];
  }

  // What a part uses of others, its own constants among its nodes.
  void note_reads(const Nodes& nodes) {
    const std::unordered_set<const ir::Node*> inside(nodes.begin(), nodes.end());
    reads_.clear();
    made_.clear();
    std::unordered_set<ir::Value, ir::ValueHash> seen;
    const auto need = [&](const ir::Value& v, const auto& self) -> void {
      if (inside.count(v.node) || !seen.insert(v).second) return;
      if (!is_made_anew(*v.node)) return reads_.push_back(v);
      for (const ir::Value& in : v.node->inputs) self(in, self);
      made_.push_back(v.node);
    };
    for (const ir::Node* node : nodes)
      for (const auto* list : {&node->inputs, &node->captures})
        for (const ir::Value& v : *list) need(v, need);
  }

  static int position(const std::vector<ir::Value>& list, const ir::Value& v) {
    const auto found = std::find(list.begin(), list.end(), v);
    return found == list.end() ? -1 : int(found - list.begin());
  }

  Part part(int level, const Nodes& nodes) {
    const std::unordered_set<const ir::Node*> inside(nodes.begin(), nodes.end());
    std::unordered_set<ir::Value, ir::ValueHash> wanted(graph_.results.begin(), graph_.results.end());
    for (const ir::Node* node : order_)
      if (!inside.count(node))
        for (const auto* list : {&node->inputs, &node->captures})
          for (const ir::Value& v : *list) wanted.insert(v);
    std::vector<ir::Value> results, effects;
    Part out{.on_host = level % 2 == 1};
    for (const ir::Value& v : reads_) out.reads.push_back(number_of(v));
    Nodes all = made_;
    all.insert(all.end(), nodes.begin(), nodes.end());
    std::sort(all.begin(), all.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
    for (const ir::Node* node : nodes)
      for (uint32_t i = 0; i < node->types.size(); ++i) {
        auto& slots = numbers_[node];
        slots.resize(node->types.size());
        if (!wanted.count(node->result(i))) continue;
        out.writes.push_back(slots[i] = slots_++);
        results.push_back(node->result(i));
      }
    for (const ir::Value& v : graph_.effects)
      if (inside.count(v.node)) effects.push_back(v);
    out.graph = ir::extract(graph_, reads_, all, results, effects);
    out.graph.donations.assign(reads_.size(), -1);
    for (size_t r = 0; r < reads_.size(); ++r)
      for (size_t i = 0; i < graph_.donations.size(); ++i)
        if (graph_.donations[i] >= 0 && reads_[r] == graph_.params[i])
          out.graph.donations[r] = position(results, graph_.results[size_t(graph_.donations[i])]);
    return out;
  }

  const ir::Graph& graph_;
  const arch::Chip& chip_;
  const Nodes order_;
  Split out_;
  std::unordered_map<const ir::Node*, int> level_;
  std::unordered_map<const ir::Node*, std::vector<size_t>> numbers_;
  size_t slots_ = 0;
  std::vector<ir::Value> reads_;
  Nodes made_;
};

}  // namespace

Split split(const ir::Graph& graph, const arch::Chip& chip) {
  if (!obstacle(graph, chip).empty()) return Splitter(graph, chip).all();
  Split whole;
  Part all{.graph = ir::copy(graph)};
  for (size_t i = 0; i < graph.params.size(); ++i) all.reads.push_back(i);
  for (size_t i = 0; i < graph.results.size(); ++i) all.writes.push_back(graph.params.size() + i);
  whole.results = all.writes;
  whole.parts.push_back(std::move(all));
  return whole;
}

}  // namespace trine::compile

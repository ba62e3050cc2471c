// One walk in order of ids, nodes made anew in another graph, with rules applied to each new node.
#include "ir/rewrite.h"

#include <unordered_map>

#include "base/result.h"
#include "ir/op_ids.h"

namespace trine::ir {

namespace {

constexpr int kIterationsMax = 100;  // of rules on one node: a cycle of rules is a bug

class Rewriter {
 public:
  Rewriter(const Graph& from, std::span<const Rule> rules) : from_(from), rules_(rules) {}
  Rewriter(const Graph& from, const Instead& instead) : Rewriter(from, std::span<const Rule>()) { instead_ = &instead; }

  Rewritten all() {
    Graph& g = out_.graph;
    g.name = from_.name;
    g.attrs = from_.attrs;
    g.donations = from_.donations;
    for (const Value& p : from_.params) g.params.push_back(parameter(p));
    for (const Node* node : from_.order()) visit(*node);
    g.results = mapped(from_.results);
    g.effects = copied_effects(from_.effects);
    return std::move(out_);
  }

  Graph part(const std::vector<Value>& params, std::span<const Node* const> nodes, const std::vector<Value>& results,
             const std::vector<Value>& effects) {
    Graph& g = out_.graph;
    g.name = from_.name;
    g.attrs = from_.attrs;
    for (const Value& p : params) {
      g.params.push_back(g.parameter(p.type(), location(p.node->where)));
      std::vector<Value>& known = map_[p.node];
      known.resize(p.node->types.size());
      known[p.index] = g.params.back();
    }
    for (const Node* node : nodes) visit(*node);
    g.results = mapped(results);
    g.effects = copied_effects(effects);
    return std::move(g);
  }

 private:
  Value parameter(const Value& old) {
    Value fresh = out_.graph.parameter(old.type(), location(old.node->where));
    map_[old.node] = {fresh};
    return fresh;
  }
  uint32_t location(uint32_t where) { return where ? out_.graph.add_location(from_.location(where)) : 0; }
  std::vector<Value> mapped(const std::vector<Value>& values) {
    std::vector<Value> out;
    for (const Value& v : values) out.push_back(map_.at(v.node)[v.index]);
    return out;
  }
  // An effect may have no results: then its node stands for it.
  std::vector<Value> copied_effects(const std::vector<Value>& effects) {
    std::vector<Value> out;
    for (const Value& v : effects) {
      const std::vector<Value>& results = map_.at(v.node);
      out.push_back(results.empty() ? Value{bare_.at(v.node), 0} : results[v.index]);
    }
    return out;
  }
  void visit(const Node& node) {
    if (map_.count(&node)) return;
    CHECK(node.op != op::parameter, "every parameter is of the program or of a region");
    if (instead_) {
      const auto made = [&](const Value& old) {
        visit(*old.node);
        return map_.at(old.node)[old.index];
      };
      if (Replacement by = (*instead_)(out_.graph, node, made); !by.empty()) {
        map_[&node] = std::move(by);
        return;
      }
    }
    if (instead_)
      for (const Value& v : node.inputs) visit(*v.node);
    Spec spec{.op = node.op,
              .inputs = mapped(node.inputs),
              .attrs = node.attrs,
              .types = node.types,
              .where = location(node.where),
              .is_unique = node.is_unique};
    for (const Region& old : node.regions) {
      Region region;
      for (const Value& p : old.params) region.params.push_back(parameter(p));
      for (const Node* inner : body_of(old).nodes) visit(*inner);
      region.results = mapped(old.results);
      region.effects = copied_effects(old.effects);
      spec.regions.push_back(std::move(region));
    }
    const Node* made = out_.graph.add(std::move(spec));
    if (made->types.empty()) bare_[&node] = made;
    map_[&node] = settled(made);
  }
  // Applies rules to a new node, then to what replaced it, until none applies.
  std::vector<Value> settled(const Node* node) {
    for (int iteration = 0; iteration < kIterationsMax; ++iteration) {
      Replacement next = once(*node);
      if (next.empty()) break;
      CHECK(next.size() == node->types.size(), "a rule replaces every result");
      const Node* first = next[0].node;
      bool whole = first->types.size() == next.size() && first != node;
      for (size_t i = 0; i < next.size(); ++i) whole = whole && next[i] == first->result(uint32_t(i));
      if (!whole) return next;
      node = first;
    }
    std::vector<Value> results;
    for (uint32_t i = 0; i < node->types.size(); ++i) results.push_back(node->result(i));
    return results;
  }
  Replacement once(const Node& node) {
    for (const Rule& rule : rules_) {
      if (rule.op && rule.op != node.op) continue;
      Replacement found = rule.apply(out_.graph, node);
      if (found.empty()) continue;
      ++out_.applied[rule.name];
      return found;
    }
    return {};
  }

  const Graph& from_;
  std::span<const Rule> rules_;
  const Instead* instead_ = nullptr;
  Rewritten out_;
  std::unordered_map<const Node*, std::vector<Value>> map_;
  std::unordered_map<const Node*, const Node*> bare_;  // of nodes without results
};

class Inliner {
 public:
  explicit Inliner(Graph& graph) : graph_(graph) {}

  void replace(const Value& param, const Value& by) { map_[param.node] = {by}; }
  void visit_all(const Region& region) {
    for (const Node* node : body_of(region).nodes) visit(*node);
  }
  std::vector<Value> mapped(const std::vector<Value>& values) const {
    std::vector<Value> out;
    for (const Value& v : values) {
      auto found = map_.find(v.node);
      out.push_back(found == map_.end() ? v : found->second[v.index]);
    }
    return out;
  }

 private:
  void visit(const Node& node) {
    Spec spec{.op = node.op,
              .inputs = mapped(node.inputs),
              .attrs = node.attrs,
              .types = node.types,
              .where = node.where,
              .is_unique = node.is_unique};
    for (const Region& old : node.regions) {
      Region region;
      for (const Value& p : old.params) {
        region.params.push_back(graph_.parameter(p.type(), p.node->where));
        replace(p, region.params.back());
      }
      visit_all(old);
      region.results = mapped(old.results);
      region.effects = mapped(old.effects);
      spec.regions.push_back(std::move(region));
    }
    const Node* made = graph_.add(std::move(spec));
    for (uint32_t i = 0; i < made->types.size(); ++i) map_[&node].push_back(made->result(i));
    if (made->types.empty()) map_[&node] = {Value{made, 0}};  // an effect
  }

  Graph& graph_;
  std::unordered_map<const Node*, std::vector<Value>> map_;
};

}  // namespace

std::vector<Value> inlined(Graph& graph, const Region& region, std::span<const Value> args) {
  CHECK(args.size() == region.params.size(), "a region is given its parameters");
  Inliner inliner(graph);
  for (size_t i = 0; i < args.size(); ++i) inliner.replace(region.params[i], args[i]);
  inliner.visit_all(region);
  std::vector<Value> out = inliner.mapped(region.results), effects = inliner.mapped(region.effects);
  out.insert(out.end(), effects.begin(), effects.end());
  return out;
}

Rewritten rewrite(const Graph& graph, std::span<const Rule> rules) { return Rewriter(graph, rules).all(); }

Graph substituted(const Graph& graph, const Instead& instead) { return Rewriter(graph, instead).all().graph; }

Graph copy(const Graph& graph) { return rewrite(graph, {}).graph; }

Graph extract(const Graph& graph, const std::vector<Value>& params, std::span<const Node* const> nodes,
              const std::vector<Value>& results, const std::vector<Value>& effects) {
  return Rewriter(graph, std::span<const Rule>()).part(params, nodes, results, effects);
}

}  // namespace trine::ir

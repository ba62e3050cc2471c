// Rewriting: named rules in tables, applied to every node of a graph, regions included, until none applies.
// A rule sees a node whose inputs are rewritten already and answers with values for its results, or with nothing.
// Invariant: the new graph computes what the old one did; it holds only what results and effects need.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace trine::ir {

using Replacement = std::vector<Value>;  // one per result; empty: the rule does not apply

struct Rule {
  std::string_view name = {};  // printed by --explain and counted
  OpId op = {};                // of the nodes it looks at; none: all
  Replacement (*apply)(Graph& graph, const Node& node) = nullptr;
};

struct Rewritten {
  Graph graph;
  std::map<std::string_view, int64_t> applied = {};  // by rule
};

Rewritten rewrite(const Graph& graph, std::span<const Rule> rules);
Graph copy(const Graph& graph);  // without what nothing needs

// A copy in which some nodes' results are made otherwise: `instead` is given each old node and the way from old values
// to new ones, and answers with new values for its results, or with nothing.
using NewValue = std::function<Value(const Value& old)>;
using Instead = std::function<Replacement(Graph& graph, const Node& old, const NewValue& made)>;
Graph substituted(const Graph& graph, const Instead& instead);

// The nodes, in order of id, as a graph of their own: `params` are given to it, `results` and `effects` are its.
Graph extract(const Graph& graph, const std::vector<Value>& params, std::span<const Node* const> nodes,
              const std::vector<Value>& results, const std::vector<Value>& effects = {});

// The region's results, then its effects, with `args` for its parameters: its nodes made anew in the same graph.
std::vector<Value> inlined(Graph& graph, const Region& region, std::span<const Value> args);

}  // namespace trine::ir

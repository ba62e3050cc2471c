// The text form of a graph, which reads back to the same graph; see docs/graph.md.
// Values are numbered in order of printing, so the text of a graph does not depend on how it was built.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace trine::ir {

struct PrintOptions {
  bool locations = true;   // the user's lines
  int64_t constants = -1;  // bytes of a constant printed in full; longer ones are elided, and cannot be read; -1: all
};

std::string text(const Graph& graph, const PrintOptions& options = {});
// One node with its regions; what it uses of the graph around it is numbered from 0.
std::string text(const Graph& graph, const Node& node, const PrintOptions& options = {});
// `name` begins the location of an error. Types are as written: verify() judges them.
Result<Graph> parse_graph(std::string_view text, std::string_view name);

}  // namespace trine::ir

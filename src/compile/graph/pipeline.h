// The graph's pipeline: what is done to an imported graph before it becomes a host plan or a device kernel. Every row
// is a function from graph to graph; which rows apply follows from the options.
// Invariant: the graph computes what it did; where a row changes types or shapes, its help says so.
#pragma once

#include <optional>

#include "compile/graph/layout.h"
#include "compile/graph/numerics.h"
#include "compile/partition/sharding.h"
#include "compile/pass/pass.h"
#include "ir/graph.h"

namespace trine::compile {

// The graph in hand: the caller's own until a pass makes another.
class CurrentGraph {
 public:
  CurrentGraph(const ir::Graph& given) : given_(&given) {}
  CurrentGraph(ir::Graph&& own) : own_(std::move(own)) {}

  const ir::Graph& operator*() const { return own_ ? *own_ : *given_; }
  const ir::Graph* operator->() const { return &**this; }
  void operator=(ir::Graph&& made) { own_ = std::move(made); }
  ir::Graph take();  // leaves nothing

 private:
  const ir::Graph* given_ = nullptr;
  std::optional<ir::Graph> own_ = {};
};

enum class Target : uint8_t { host, device };

struct GraphOptions {
  Target target = Target::host;
  bool imports = false;             // show the graph as it was imported
  bool narrows_words = false;       // 64-bit integers as the chip's 32
  bool selects_predicates = false;  // x * convert(predicate) as select, as XLA has it
  bool partitions = false;          // for one device of several
  bool simplifies = true;
  Layouts layouts = {};
  Numerics numerics = {};
};

struct GraphState {
  CurrentGraph graph;
  GraphOptions options = {};
  ShardingTexts shardings = {};  // of what is partitioned: how its inputs and outputs lie
};

const Pipeline<GraphState>& graph_pipeline();

// Of what any pass leaves that gives a graph: its ops, and ir::verify with the ops' own rules.
std::vector<PassSize> graph_sizes(const ir::Graph& graph);
Result<void> verify_graph(const ir::Graph& graph);

}  // namespace trine::compile

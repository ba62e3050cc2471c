// Which nodes are computed together: each unit becomes one step of a host plan.
// A loop unit is one loop program; anything else is a unit of its own. Values inside a loop unit need no memory.
// Invariant: units in the order given need only values that earlier units, or the plan's inputs, hold in memory.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compile/graph/attention.h"
#include "ir/graph.h"

namespace trine::compile {

struct Unit {
  const ir::Node* single = nullptr;         // not a loop: the one node
  const ir::Node* product = nullptr;        // of a loop: a multiply done just before it, maybe tile by tile with it
  bool keeps_product = false;               // others read it too
  std::vector<const ir::Node*> roots = {};  // of a loop: what it writes to memory, by id
  std::unordered_set<const ir::Node*> members = {};
  size_t op_count = 0;                        // members that are not views
  std::vector<const ir::Node*> joins = {};    // members that concatenate or pad: the loop is cut where parts meet
  const AttentionMatch* attention = nullptr;  // what `single`, its root, stands for
  Dims space = {};                            // of a loop: its dims
  std::vector<bool> inner = {};               // of a loop: the dims its reductions go over

  bool is_loop() const { return single == nullptr; }
  bool has_reduction() const;
};

struct Fusion {
  std::vector<Unit> units = {};
  // Values without memory of their own: reshapes, which are the same bytes, and views that their users walk.
  std::unordered_set<const ir::Node*> views = {};
  std::deque<AttentionMatch> attentions = {};  // those of the units
};

struct FuseOptions {
  bool (*attention)(AttentionMatch&) =
      nullptr;  // which attentions are units, brought into the form it wants; null: plain ones
  bool (*dense)(const ir::Node&) = nullptr;  // which nodes are to find their operands in memory; null: those that must
  bool once_over_products = false;  // what several loops make of a multiply's result is made where the multiply is
  bool results_first = false;  // what no unit reads comes as soon as it can: then what it reads need not be kept for it
  bool rows_after = false;     // few cheap ops on a reduction's results are done in its loop
  bool rows_apart = false;     // what is reduced over other dims than the last is made before, by a loop of rows
  bool rows_together = false;  // reductions of the same rows are one loop, which reads them once
  bool once_in_cache = false;  // what costs much and fits a cache is not computed by each of many loops
  bool gathers = false;        // gathers of single elements are part of loops
  bool joins = false;          // so are concatenations and pads, for which a loop is cut
};

// nodes: a graph's or a region's, in order. kept: values that must be in memory at the end.
Fusion fuse(std::span<const ir::Node* const> nodes, std::span<const ir::Value> live_out,
            const FuseOptions& options = {});

std::string unit_text(const Unit& unit);        // its type and its ops
std::string fusion_text(const Fusion& fusion);  // a line for each unit

bool is_alias(const ir::Node& node);        // the same bytes under other dims: reshape, broadcast of as many
bool has_plans(const ir::Node& node);       // its regions become plans: while, case
bool is_made_anew(const ir::Node& node);    // constants, counts: every plan that uses them makes them itself
bool walks_operands(const ir::Node& node);  // reads its operands at any strides: dot_general, convolution

}  // namespace trine::compile

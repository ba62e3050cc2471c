// What control flow needs to know of a graph: how often a loop runs, and where a value is read last.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>

#include "compile/graph/fuse.h"
#include "ir/value_hash.h"

namespace trine::compile::device {

// The number of iterations of a while that counts: i = start; while (i < end) i += step, all known.
std::optional<int64_t> known_iterations(const ir::Node& loop);

// A region's nodes, and what it uses of the graph around it that is made anew for it (graph/fuse.h).
std::vector<const ir::Node*> nodes_of(const ir::Region& region);

// Of a graph and of all bodies of loops and branches in it.
std::vector<const ir::Node*> nodes_and_bodies(const ir::Graph& graph);

// For each value in memory, the last of the units that reads it, through whatever views; units.size() for what is kept.
using LastUse = std::unordered_map<ir::Value, size_t, ir::ValueHash>;
LastUse last_uses(const std::vector<Unit>& units, std::span<const ir::Value> live_out);

}  // namespace trine::compile::device

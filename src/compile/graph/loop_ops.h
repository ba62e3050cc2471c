// Which ops of the graph a tile program can compute, and with which of its own; one row each.
#pragma once

#include <span>
#include <string_view>

#include "arch/plan/loop.h"
#include "ir/graph.h"

namespace trine::compile {

struct TileRow {
  ir::OpId op = {};
  arch::TileOp tile = arch::TileOp::count;
  arch::TileOp logical = arch::TileOp::count;  // on booleans; count: the same
  int cost = 1;                                // of an element, about in additions
};

const TileRow* tile_row(ir::OpId op);                   // null where there is none
arch::TileOp tile_compare(std::string_view direction);  // "LT" ...; count where there is none
arch::TileOp tile_reduce(std::string_view kind);        // "add" ...; count where there is none

// An elementwise node that tile programs compute: its op, and the dtypes of its inputs and result.
bool is_tile_map(const ir::Node& node);
// A reduce of one operand by one of the plain kinds.
bool is_tile_reduce(const ir::Node& node);
int tile_cost(const ir::Node& node);

}  // namespace trine::compile

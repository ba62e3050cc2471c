// Which nodes of the graph a host loop can compute: the ops with a host column, of dtypes that loops have.
#pragma once

#include <string_view>

#include "arch/plan/loop.h"
#include "ops/op.h"

namespace trine::compile {

// The op's host column; null where loops do not compute it.
const ops::OnHost* loop_row(ir::OpId op);
arch::LoopOp loop_compare(std::string_view direction);  // "LT" ...; count where there is none
arch::LoopOp loop_reduce(std::string_view kind);        // "add" ...; count where there is none

// An elementwise node that loop programs compute: its op, and the dtypes of its inputs and result.
bool is_loop_map(const ir::Node& node);
// A reduce of one operand by one of the plain kinds.
bool is_loop_reduce(const ir::Node& node);
int loop_cost(const ir::Node& node);

}  // namespace trine::compile

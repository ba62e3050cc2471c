// Indices counted in 64 bits where 32 do: jax.random numbers the elements of an array so. Loops of 32-bit lanes become
// machine code, those of 64 do not. Rules for simplify.h's table.
#pragma once

#include "ir/rewrite.h"

namespace trine::compile {

// convert to 32 bits or fewer of sums and products of indices: the same of narrow indices.
ir::Replacement narrow_indices(ir::Graph& graph, const ir::Node& node);

// shift_right_logical of indices by more bits than they have: zero.
ir::Replacement shift_indices_out(ir::Graph& graph, const ir::Node& node);

}  // namespace trine::compile

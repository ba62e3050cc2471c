// Complex numbers as pairs: an elementwise op on them becomes ops on their parts, which loops compute like any others;
// only `real` and `imag` of what is in memory, and `complex` of what goes there, stay. A rule for simplify.h's table.
#pragma once

#include "ir/rewrite.h"

namespace trine::compile {

// Nothing where the node has nothing to do with complex numbers, or no such ops are known for it.
ir::Replacement take_apart_complex(ir::Graph& graph, const ir::Node& node);

// `real` or `imag` of complex numbers; `complex` of two real ones.
bool is_complex_part(const ir::Node& node);
bool is_complex_pair(const ir::Node& node);

}  // namespace trine::compile

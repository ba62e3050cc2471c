// What a loop computes anew in every iteration from values that it never changes, computed once before it.
#pragma once

#include "ir/rewrite.h"

namespace trine::compile {

// Of a while: the same without the carried values that only such work needs, which is then of the graph around it.
// Views and values larger than what they are made of stay in the loop, where whoever reads them makes them on the way.
ir::Replacement hoist_invariants(ir::Graph& graph, const ir::Node& loop);

}  // namespace trine::compile

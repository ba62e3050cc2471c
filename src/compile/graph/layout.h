// Programs whose parameters or results lie in memory in another order than row-major ("{0,1}", minor dim first). They
// become programs over tensors with the dims as they lie, row-major, with transposes at the edge: nothing after this
// pass knows of layouts. Tiles of a layout are refused.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace trine::compile {

// From minor to major, one per parameter and result; empty: row-major.
struct Layouts {
  std::vector<Dims> params = {}, results = {};

  bool are_all_default() const;
};

Result<Layouts> layouts_of(const ir::Graph& graph);
ir::Graph as_they_lie(ir::Graph graph, const Layouts& layouts);

Dims major_to_minor(const Dims& layout);
Dims dims_in_memory(const Dims& dims, const Dims& layout);         // of a tensor of `dims`
Dims dims_from_memory(const Dims& in_memory, const Dims& layout);  // and back
std::string layout_text(const Dims& layout, size_t rank);          // "{1,0}"

}  // namespace trine::compile

// Few rows that are very long, as logits over a vocabulary are: each becomes several, so that every partition has
// some. Elementwise work on them and reductions along them are done in parts, and what the parts gave is reduced again.
// Rows that a multiply reads stay as they are.
#pragma once

#include "arch/chips/chip.h"
#include "ir/graph.h"

namespace trine::compile::device {

ir::Graph long_rows(ir::Graph graph, const arch::Chip& chip);

}  // namespace trine::compile::device

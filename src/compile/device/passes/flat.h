// Sequences of odd lengths as one list of rows: [batch, positions, width] whose positions fill no tile of partitions
// evenly becomes [batch · positions, width] around the multiplies that do not tell sequences apart. The same bytes
// throughout.
#pragma once

#include "arch/chips/chip.h"
#include "ir/graph.h"

namespace trine::compile::device {

ir::Graph flat(ir::Graph graph, const arch::Chip& chip);

}  // namespace trine::compile::device

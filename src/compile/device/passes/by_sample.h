// Convolutions over a batch that does not fit on chip: as long as values are that large, one image after the other.
// What images do not share is then never brought out of SBUF and back; further on, where values are small, they are
// one batch again. A batch of which even that is large goes through by some images at a time.
#pragma once

#include "arch/chips/chip.h"
#include "ir/graph.h"

namespace trine::compile::device {

ir::Graph by_sample(ir::Graph graph, const arch::Chip& chip);

}  // namespace trine::compile::device

// Elementwise work on arrays that fill few partitions, or that have hardly anything on each, as rows that fill all: a
// list of 2^20 numbers is [128, 8,192]. The same bytes throughout; what tells rows apart stays as it is.
#pragma once

#include "arch/chips/chip.h"
#include "ir/graph.h"

namespace trine::compile::device {

ir::Graph spread(ir::Graph graph, const arch::Chip& chip);

}  // namespace trine::compile::device

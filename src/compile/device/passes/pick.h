// One element of each row of what is reduced along its rows anyway, as cross-entropy picks the logit of a target: the
// sum of the row in which all others are left out, which the loop that reduces the rows finds on its way
// (loops/loop.cpp). Other gathers are decompose/index.cpp's.
#pragma once

#include "ir/graph.h"

namespace trine::compile::device {

ir::Graph picked_in_rows(ir::Graph graph);

}  // namespace trine::compile::device

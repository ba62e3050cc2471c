// Constants of one value.
#pragma once

#include "ir/graph.h"

namespace trine::compile::device {

// Is the node a constant whose elements are all the same? Then that value.
bool splat(const ir::Node& node, double& out);

}  // namespace trine::compile::device

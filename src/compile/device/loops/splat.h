// Constants of one value, and what is known of the size of values that are made of them.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace trine::compile::device {

// Is the node a constant whose elements are all the same? Then that value.
bool splat(const ir::Node& node, double& out);

// A number that no element is larger than in size, none of them a NaN; nothing where the graph shows none.
std::optional<double> bound_of(const ir::Value& value);

}  // namespace trine::compile::device

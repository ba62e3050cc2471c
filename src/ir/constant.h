// What constants hold. Not how they are made, which is Graph::constant.
#pragma once

#include "ir/graph.h"

namespace trine::ir {

// Null where the node is no constant.
const Tensor* constant_of(const Node& node);
inline const Tensor* constant_of(const Value& value) { return constant_of(*value.node); }

bool is_splat(const Tensor& tensor);  // it has elements, and they are all the same, bit by bit

}  // namespace trine::ir

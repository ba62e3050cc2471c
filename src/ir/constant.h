// What constants hold, and which values are one number everywhere. Not how they are made, which is Graph::constant.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace trine::ir {

// Null where the node is no constant.
const Tensor* constant_of(const Node& node);
inline const Tensor* constant_of(const Value& value) { return constant_of(*value.node); }

// The constant, of one element or of equal ones, that a value repeats through broadcasts and reshapes; else null.
const Tensor* splat_of(Value value);
// The number that every element of such a value is; nothing of complex ones.
std::optional<double> splat(const Value& value);
// The same through conversions too: the number as it was written, before any of them rounded it.
std::optional<double> splat_as_written(Value value);

}  // namespace trine::ir

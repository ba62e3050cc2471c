// What changes nothing under a reduction's kind ("add", "maximum" ...): made and recognised.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace trine::ops {

// For scalar(): 0, 1, all bits, the lowest or the highest number. Of complex numbers, their part that is real.
double identity(std::string_view kind, Dtype dtype);

// A constant that is it everywhere; a zero of either sign. Of another kind, nothing is.
bool is_identity(const ir::Value& value, std::string_view kind);

}  // namespace trine::ops

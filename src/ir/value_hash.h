// Values as keys of hash tables.
#pragma once

#include "ir/graph.h"

namespace trine::ir {

struct ValueHash {
  size_t operator()(const Value& v) const { return size_t(v.node->id) * 31 + v.index; }
};

}  // namespace trine::ir

// Between which numbers all elements of a value lie, as far as the graph shows it: constants, iotas, and the arithmetic
// on them. Not which element is which number: a mask by position needs that (position_mask.h).
// Invariant: what the program computes lies inside, rounding and wrapping included; an unknown value has all that its
// dtype holds.
#pragma once

#include "ir/graph.h"

namespace trine::compile {

struct Range {
  double low = 0, high = 0;  // may be infinite
  bool may_be_nan = false;

  double size() const;  // that no element is larger than in size; infinity where one may be, or may be a NaN
};

Range range_of(const ir::Value& value);

}  // namespace trine::compile

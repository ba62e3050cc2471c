// 64-bit integers as the chip holds them. Engines compute with words of 32 bits; Neuron's own compiler narrows alike.
// A constant that does not fit becomes the nearest number that does. Bits and calls keep their types.
#pragma once

#include "ir/graph.h"

namespace trine::compile {

// The same graph over s32 for s64, and over f32 for a scalar f64 input that is only converted.
ir::Graph narrow_words(const ir::Graph& graph);

}  // namespace trine::compile
